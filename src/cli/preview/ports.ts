/**
 * Local ports of a preview's endpoints. Each follows from the names of app and endpoint, so it is the same at every run;
 * two endpoints never want the same one, and a port that is taken gives way to the next that no other endpoint wants.
 */
import { createHash } from "node:crypto";
import { PREVIEW_PORT_FIRST, PREVIEW_PORTS } from "../../domain/limits.ts";

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

function ownPort(app: string, name: string): number {
  const hash = createHash("sha256").update(`${app}\n${name}`).digest();
  return PREVIEW_PORT_FIRST + (hash.readUInt32BE(0) % PREVIEW_PORTS);
}

function nextPort(port: number): number {
  return PREVIEW_PORT_FIRST + ((port - PREVIEW_PORT_FIRST + 1) % PREVIEW_PORTS);
}
