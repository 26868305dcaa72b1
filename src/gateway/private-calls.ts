/**
 * What gateway processes pass on to their owner, as plain HTTP on a private socket: one connection for each connection of a caller. It
 * begins with what no caller can say, which stands before the HTTP and not in it:
 *
 *   secret (32 bytes) | length (1 byte) | JSON [caller's address, port that it called]
 *
 * From then on the connection counts as the caller's own. Over TLS, between platforms that have proved themselves, there is no secret.
 */
import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { LINK_GREETING_MAX_MS } from "../domain/limits.ts";
import { AwaitedSet } from "../lib/awaited-set.ts";
import { listenPrivately } from "../lib/listen-privately.ts";

export const PRIVATE_SECRET_BYTES = 32;
const FULL_QUEUE_PAUSE_MS = 10;

export class PrivateCalls {
  readonly #accept: (socket: Socket) => void;
  readonly #greeting = new AwaitedSet<Socket>();
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

  /** Resolves when whoever has come is accepted, or gone. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server !== undefined) await new Promise<void>((resolve) => server.close(() => resolve()));
    await this.#greeting.empty();
  }

  /** Cuts off who has not said yet whose connection it is. */
  cut(): void {
    for (const socket of this.#greeting) socket.destroy();
  }

  /** One that came elsewhere. */
  greet(socket: Socket, secret: Uint8Array): void {
    const late = setTimeout(() => socket.destroy(), LINK_GREETING_MAX_MS);
    this.#greeting.add(socket);
    const greeted = () => {
      clearTimeout(late);
      this.#greeting.delete(socket);
    };
    socket.on("error", () => socket.destroy());
    socket.once("close", greeted);
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
      socket.off("readable", read);
      try {
        const [remoteAddress, localPort] = JSON.parse(caller.toString()) as [string, number];
        Object.defineProperties(socket, { remoteAddress: { value: remoteAddress }, localPort: { value: localPort } });
      } catch {
        socket.destroy();
        return;
      }
      this.#accept(socket);
      greeted();
    };
    socket.on("readable", read);
  }
}

/**
 * The gateway's end: a connection that counts as the caller's. Where so many wait to be accepted that the kernel queues no more, as when
 * the owner stands still or many come at once, it waits for its turn, LINK_GREETING_MAX_MS at most.
 */
export async function dialPrivately(socketPath: string, secret: Uint8Array, caller: Socket): Promise<Socket> {
  for (const began = performance.now(); ; ) {
    const socket = connect(socketPath);
    socket.on("error", () => {}); // Of a connection that nobody uses yet.
    try {
      await once(socket, "connect");
      if (caller.destroyed) throw new Error("the caller has gone");
      socket.write(Buffer.concat([secret, toldOf(caller)]));
      return socket;
    } catch (error) {
      socket.destroy();
      const isQueueFull = (error as NodeJS.ErrnoException).code === "EAGAIN";
      const isLate = performance.now() - began > LINK_GREETING_MAX_MS;
      if (!isQueueFull || isLate || caller.destroyed) throw error;
    }
    await delay(FULL_QUEUE_PAUSE_MS);
  }
}

/** What is said of a caller before its HTTP. */
export function toldOf({ remoteAddress = "", localPort = 0 }: Socket): Buffer {
  const told = Buffer.from(JSON.stringify([remoteAddress, localPort]));
  return Buffer.concat([Buffer.of(told.length), told]);
}
