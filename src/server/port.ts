/**
 * The port of callers, who send their keys there: only this user's own processes share it (SO_REUSEPORT), and one platform alone has it.
 *
 *   platform, or its gateways   listen
 *   launcher                    holds it: bound, not listening. After a crash the platform's user alone can listen there, and of its
 *                               workers none, as those share no ports (seccomp.py)
 */
import { existsSync, readFileSync } from "node:fs";
import { connect, createServer, isIP, type Server } from "node:net";
import { cannotListen, portInUse } from "../domain/cannot-listen.ts";
import { SvcError } from "../domain/errors.ts";
import type { HeldAddress } from "../domain/worker-protocol.ts";
import type { Gateway } from "../gateway/server.ts";

const PROBE_MAX_MS = 1_000;

/** Listens for callers, on `wanted` (0: any), where nobody else does. Throws PORT_IN_USE. */
export async function listenAlone(
  gateway: Pick<Gateway, "listen" | "stopListening">,
  host: string,
  wanted: number,
): Promise<{ readonly port: number }> {
  const port = await claimPort(host, wanted);
  const shares = await canShare(host, port);
  const listening = await gateway.listen(host, port, shares);
  // Two that start at once both found it free.
  if (shares && listenersAt(port) > 1) {
    gateway.stopListening();
    throw portInUse(host, port);
  }
  return listening;
}

/** The port, where nobody listens; what this user's launcher holds is free. Throws PORT_IN_USE. */
export async function claimPort(host: string, wanted: number): Promise<number> {
  try {
    return await tryPort(host, wanted, false);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw cannotListen(error, host, wanted);
    if (!(await answers(host, wanted)) && (await canShare(host, wanted))) return wanted;
    throw portInUse(host, wanted, error);
  }
}

/** The same, for several processes. One that was free is nobody else's until `letGo`. Throws PORT_IN_USE and CONFIG_INVALID. */
export async function sharedPort(host: string, wanted: number): Promise<{ readonly port: number; letGo(): void }> {
  const port = await claimPort(host, wanted);
  const holder = await listening(host, port, true).catch((cause: unknown) => {
    throw new SvcError("CONFIG_INVALID", "SVC_GATEWAYS: this system does not let processes share a port.", {
      help: "Set it to 0: the platform then takes calls itself.",
      cause,
    });
  });
  // Of any other callers know already, and would come here.
  if (wanted !== 0) await closed(holder);
  return { port, letGo: () => holder.close() };
}

/** Whether processes of this user can listen there together. */
function canShare(host: string, port: number): Promise<boolean> {
  return tryPort(host, port, true).then(
    () => true,
    () => false,
  );
}

/** What the launcher holds: where the platform listens, and the same port of the other family, which names like "localhost" lead to as well; none of a name. */
export function heldAddresses(host: string, port: number): readonly HeldAddress[] {
  if (process.platform !== "linux" || port === 0) return [];
  const pairs = [
    ["127.0.0.1", "::1", "localhost"],
    ["0.0.0.0", "::"],
  ];
  const names = pairs.find((pair) => pair.includes(host)) ?? [host];
  return names.filter((name) => isIP(name) !== 0).map((name) => [name, port] as const);
}

async function tryPort(host: string, port: number, shared: boolean): Promise<number> {
  const server = await listening(host, port, shared);
  const taken = (server.address() as { port: number }).port;
  await closed(server);
  return taken;
}

function listening(host: string, port: number, shared: boolean): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", reject);
    server.listen({ host, port, reusePort: shared }, () => resolve(server));
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Whether anybody takes connections there, or may. */
function answers(host: string, port: number): Promise<boolean> {
  const own = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  return new Promise((resolve) => {
    const socket = connect({ host: own, port, timeout: PROBE_MAX_MS });
    const told = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => told(true));
    socket.once("timeout", () => told(true));
    socket.once("error", ({ code }: NodeJS.ErrnoException) => told(code !== "ECONNREFUSED"));
  });
}

/** How many sockets listen at one address with this port, at most; 0 where the system does not say. */
function listenersAt(port: number): number {
  const hex = port.toString(16).toUpperCase().padStart(4, "0");
  // Number, own address, the other's, and the state: 0A listens.
  const listening = new RegExp(`^ *\\d+: (\\w+:${hex}) \\S+ 0A `, "gm");
  const counts = new Map<string, number>();
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    if (!existsSync(table)) continue;
    for (const [, address = ""] of readFileSync(table, "latin1").matchAll(listening)) {
      counts.set(address, (counts.get(address) ?? 0) + 1);
    }
  }
  return Math.max(0, ...counts.values());
}
