/**
 * Makes the platform's HTTP side reachable for containers: a second listener on this machine's own address of their
 * network, which hands its connections to the gateway. Only this machine and its containers reach that address.
 */
import type { Server as HttpServer } from "node:http";
import { createServer, type Server } from "node:net";

/** Name that engines in a machine of their own give to this one. */
const ENGINE_HOST_NAME = "host.docker.internal";

export class ContainerCalls {
  readonly #gateway: () => HttpServer;
  readonly #localUrl: () => string;
  #server: Server | undefined;

  constructor(gateway: () => HttpServer, localUrl: () => string) {
    this.#gateway = gateway;
    this.#localUrl = localUrl;
  }

  /** Resolves the base URL for containers. */
  async serve(hostAddress: string | undefined): Promise<string> {
    const port = Number(new URL(this.#localUrl()).port);
    if (hostAddress === undefined) return `http://${ENGINE_HOST_NAME}:${port}`;
    const server = createServer({ noDelay: true }, (socket) => {
      this.#gateway().emit("connection", socket);
    });
    server.on("error", () => {}); // One connection that cannot be accepted must not end the others.
    const code = await new Promise<string | undefined>((resolve) => {
      server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "unknown"));
      server.listen(port, hostAddress, () => resolve(undefined));
    });
    if (code === undefined) this.#server = server;
    // In use: the platform itself listens there. Any other way this machine has no such address.
    return `http://${code === undefined || code === "EADDRINUSE" ? hostAddress : ENGINE_HOST_NAME}:${port}`;
  }

  /** No new connections; those that are there are the gateway's. */
  close(): void {
    this.#server?.close();
  }
}
