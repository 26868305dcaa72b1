/** Answers `svc platform status` on a socket of this user alone: whoever connects gets one JSON object. */
import { createServer, type Server, type Socket } from "node:net";
import { listenPrivately } from "../lib/listen-privately.ts";

export class StatusSocket {
  readonly #read: () => Promise<object>;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  constructor(read: () => Promise<object>) {
    this.#read = read;
  }

  async listen(socketPath: string): Promise<void> {
    const server = createServer((socket) => this.#answer(socket));
    await listenPrivately(server, socketPath);
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    const closed = server && new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #answer(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => this.#sockets.delete(socket));
    this.#read().then(
      (status) => socket.end(JSON.stringify(status)),
      () => socket.destroy(),
    );
  }
}
