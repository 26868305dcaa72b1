/** The local ports of a preview: one for each endpoint, on this machine and in the preview's network. */

import { createHash } from "node:crypto";
import { SvcError } from "../../domain/errors.ts";
import { PREVIEW_PORT_FIRST, PREVIEW_PORTS } from "../../domain/limits.ts";
import type { Manifest } from "../../domain/manifest.ts";
import type { Terminal } from "../terminal.ts";
import type { Network } from "./engine.ts";
import { Front } from "./front.ts";

export interface Fronts {
  of(endpoint: string): Front;
  portOf(endpoint: string): number;
  close(): Promise<void>;
}

/** Says which ports were taken, and what is used instead. */
export async function openFronts(
  terminal: Terminal,
  app: string,
  manifest: Manifest,
  network: Network,
): Promise<Fronts> {
  const wanted = wantedPorts(app, Object.keys(manifest.resources));
  const open = new Map<string, { readonly front: Front; readonly port: number }>();
  const close = async () => {
    await Promise.all([...open.values()].map(({ front }) => front.close()));
  };
  try {
    for (const [name, first] of wanted) {
      const front = new Front();
      const port = await listen(front, name, manifest.resources[name]!.cors, wanted, network);
      if (port !== first) terminal.note(`${name}: Port ${first} is in use, using ${port} instead`);
      open.set(name, { front, port });
    }
  } catch (error) {
    await close();
    throw error;
  }
  const known = (name: string) => {
    const entry = open.get(name);
    if (entry === undefined) throw new Error(`the preview has no endpoint ${name}`);
    return entry;
  };
  return { of: (name) => known(name).front, portOf: (name) => known(name).port, close };
}

async function listen(
  front: Front,
  name: string,
  cors: string,
  wanted: ReadonlyMap<string, number>,
  network: Network,
): Promise<number> {
  const local = { host: "localhost", subnet: undefined, cors };
  const inside = { host: name, subnet: network.subnet, cors };
  const places = [
    { address: "127.0.0.1", admission: local },
    { address: "::1", admission: local, optional: true },
    { address: network.gateway, admission: inside },
  ];
  for (const port of portsToTry(name, wanted)) if (await front.listen(port, places)) return port;
  throw new SvcError("PORT_IN_USE", "No local port is free for a preview.");
}

/** Endpoint name → port. Endpoints whose names fall on one port get neighbours, in the order of their names. */
export function wantedPorts(app: string, endpoints: readonly string[]): Map<string, number> {
  const taken = new Set<number>();
  const wanted = new Map<string, number>();
  for (const name of [...endpoints].sort()) {
    let port = ownPort(app, name);
    while (taken.has(port)) port = nextPort(port);
    taken.add(port);
    wanted.set(name, port);
  }
  return wanted;
}

/** The ports to try for an endpoint, best first: its own, then those behind it that no other endpoint wants. */
export function* portsToTry(name: string, wanted: ReadonlyMap<string, number>): Generator<number> {
  const first = wanted.get(name)!;
  const others = new Set(wanted.values());
  yield first;
  for (let port = nextPort(first); port !== first; port = nextPort(port)) {
    if (!others.has(port)) yield port;
  }
}

/**
 * Local ports of a preview's endpoints. Each follows from the names of app and endpoint, so it is the same at every run;
 * two endpoints never want the same one, and a port that is taken gives way to the next that no other endpoint wants.
 */
function ownPort(app: string, name: string): number {
  const hash = createHash("sha256").update(`${app}\n${name}`).digest();
  return PREVIEW_PORT_FIRST + (hash.readUInt32BE(0) % PREVIEW_PORTS);
}

function nextPort(port: number): number {
  return PREVIEW_PORT_FIRST + ((port - PREVIEW_PORT_FIRST + 1) % PREVIEW_PORTS);
}
