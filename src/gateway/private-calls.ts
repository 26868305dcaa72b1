/**
 * What gateway processes pass on to their owner, as plain HTTP on a private socket: one connection for each connection of a caller. It
 * begins with what no caller can say, which stands before the HTTP and not in it:
 *
 *   secret (32 bytes) | length (1 byte) | JSON [caller's address, port that it called]
 *
 * From then on the connection counts as the caller's own. Over TLS, between platforms that have proved themselves, there is no secret.
 */
import { timingSafeEqual } from "node:crypto";
import { connect, createServer, type Server, type Socket } from "node:net";
import { LINK_GREETING_MAX_MS } from "../domain/limits.ts";
import { listenPrivately } from "../lib/listen-privately.ts";

export const PRIVATE_SECRET_BYTES = 32;

export class PrivateCalls {
  readonly #accept: (socket: Socket) => void;
  #server: Server | undefined;

  /** `accept` gets each connection whose beginning is right. */
  constructor(accept: (socket: Socket) => void) {
    this.#accept = accept;
  }

  async listen(socketPath: string, secret: Uint8Array): Promise<void> {
    const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => this.greet(socket, secret));
    await listenPrivately(server, socketPath);
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  /** One that came elsewhere. */
  greet(socket: Socket, secret: Uint8Array): void {
    const late = setTimeout(() => socket.destroy(), LINK_GREETING_MAX_MS);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => clearTimeout(late));
    let length: number | undefined;
    const read = () => {
      if (length === undefined) {
        const start: Buffer | null = socket.read(secret.length + 1);
        if (start === null) return;
        if (!timingSafeEqual(start.subarray(0, secret.length), secret)) {
          socket.destroy();
          return;
        }
        length = start[secret.length]!;
      }
      const caller: Buffer | null = socket.read(length);
      if (caller === null) return;
      clearTimeout(late);
      socket.off("readable", read);
      try {
        const [remoteAddress, localPort] = JSON.parse(caller.toString()) as [string, number];
        Object.defineProperties(socket, { remoteAddress: { value: remoteAddress }, localPort: { value: localPort } });
      } catch {
        socket.destroy();
        return;
      }
      this.#accept(socket);
    };
    socket.on("readable", read);
  }
}

/** The gateway's end: a connection that counts as the caller's. */
export function dialPrivately(socketPath: string, secret: Uint8Array, caller: Socket): Socket {
  const socket = connect(socketPath);
  socket.write(Buffer.concat([secret, toldOf(caller)]));
  return socket;
}

/** What is said of a caller before its HTTP. */
export function toldOf({ remoteAddress = "", localPort = 0 }: Socket): Buffer {
  const told = Buffer.from(JSON.stringify([remoteAddress, localPort]));
  return Buffer.concat([Buffer.of(told.length), told]);
}
