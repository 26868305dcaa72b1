/** The server's addresses: localhost is both of its addresses, and a port counts as free when it is free on both. */
import type { RequestListener, Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { cannotListen } from "../domain/cannot-listen.ts";
import { SvcError } from "../domain/errors.ts";
import { LOCAL_PORTS_TRIED_MAX } from "../domain/limits.ts";
import { createServer } from "../lib/http.ts";

export interface Listening {
  readonly port: number;
  close(): Promise<void>;
}

interface ListenOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** A port was busy: the text to show. */
  onBusy(message: string): void;
  readonly onRequest: RequestListener;
  readonly onUpgrade: (...args: [import("node:http").IncomingMessage, Socket, Buffer]) => void;
}

/** Tries the port and those behind it. Throws PORT_IN_USE, or CONFIG_INVALID for an address that is not this machine's. */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { host, port: first, onBusy } = options;
  const hosts = host === "localhost" ? ["127.0.0.1", "::1"] : [host];
  for (let port = first; port < first + LOCAL_PORTS_TRIED_MAX && port <= 65_535; port++) {
    const servers = await listenOnAll(hosts, port, options);
    if (servers !== undefined) return listening(servers);
    if (port < 65_535) onBusy(`Port ${port} is in use, using ${port + 1} instead`);
  }
  throw new SvcError("PORT_IN_USE", `No free port was found from ${first} on.`, { help: "Give another with --port." });
}

/** Undefined when the port is busy on one of them. */
async function listenOnAll(
  hosts: readonly string[],
  wanted: number,
  options: ListenOptions,
): Promise<Server[] | undefined> {
  const servers: Server[] = [];
  let port = wanted;
  for (const host of hosts) {
    const server = createServer({ noDelay: true, requestTimeout: 0 }, options);
    const error = await listenOn(server, host, port);
    if (error === undefined) {
      servers.push(server);
      port = (server.address() as AddressInfo).port;
      continue;
    }
    // A machine without this one of its addresses (no IPv6) listens on the other.
    if (servers.length > 0 && error.code !== "EADDRINUSE") continue;
    for (const other of servers) other.close();
    if (error.code === "EADDRINUSE") return undefined;
    throw cannotListen(error, host, port, { host: "--host", port: "--port" });
  }
  return servers;
}

/** Undefined when it listens. */
function listenOn(server: Server, host: string, port: number): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    server.once("error", resolve);
    server.listen(port, host, () => {
      server.off("error", resolve);
      resolve(undefined);
    });
  });
}

function listening(servers: readonly Server[]): Listening {
  return {
    port: (servers[0]!.address() as AddressInfo).port,
    close: async () => {
      const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
      for (const server of servers) server.closeAllConnections();
      await Promise.all(closed);
    },
  };
}
