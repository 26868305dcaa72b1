/** The local ports of a preview: one for each endpoint, on this machine and in the preview's network. */
import { SvcError } from "../../domain/errors.ts";
import type { Manifest } from "../../domain/manifest.ts";
import type { Terminal } from "../terminal.ts";
import type { Network } from "./engine.ts";
import { Front } from "./front.ts";
import { portsToTry, wantedPorts } from "./ports.ts";

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
