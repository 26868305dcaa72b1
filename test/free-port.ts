import { randomInt } from "node:crypto";
import getPort from "get-port";

/** Below the ports that the kernel gives to connections, and those of a cluster's services. */
export const [FIRST_PORT, PORTS_END] = [20_000, 30_000] as const;
const TRIES = 50;

/** A file that runs beside others has some of them for itself (harness/port-slices.ts). */
const [first = FIRST_PORT, end = PORTS_END] = process.env.SVC_TEST_PORTS?.split(" ").map(Number) ?? [];

/** Where whoever is started next can listen: no connection of another process takes it meanwhile, as it may one that the kernel gave. */
export function freePort(host = "127.0.0.1"): Promise<number> {
  return getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(first, end)) });
}

/** Whether no other file that runs meanwhile looks for a free port there. */
export function isOwnPort(port: number): boolean {
  return first <= port && port < end;
}
