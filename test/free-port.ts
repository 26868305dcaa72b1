import { randomInt } from "node:crypto";
import getPort from "get-port";

/** Below the ports that the kernel gives to connections, and those of a cluster's services. */
const [FIRST, END] = [20_000, 30_000];
const TRIES = 50;

/** Where whoever is started next can listen: no connection of another process takes it meanwhile, as it may one that the kernel gave. */
export function freePort(host = "127.0.0.1"): Promise<number> {
  return getPort({ host, port: Array.from({ length: TRIES }, () => randomInt(FIRST, END)) });
}
