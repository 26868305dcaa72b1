/**
 * What the worker of `svc run --debug` has of it: a connection that ends with it, and the terminal for its breakpoints. The worker's
 * side is python/src/svc/_runtime/process/debugger.py.
 *
 *   worker ──"TOKEN life\n"──▶ kept; when it ends, the worker ends
 *   worker ──"TOKEN ask\n"───▶ "yes\n", then what is shown and typed; "no\n" where nobody sits at a terminal, or it is taken
 */
import { randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { DEBUG_LINKS_MAX, DEBUGGER_ANSWER_MAX_MS } from "../domain/limits.ts";

/** Has the stream's text shown and what is typed sent to it, until it ends. */
export type Talk = (stream: Duplex) => void;

export class DebugLink {
  readonly #server: Server;
  readonly #talk: Talk | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #token = randomBytes(16).toString("hex");
  #talking = false;

  /** `talk`: undefined without a terminal. */
  static async open(talk: Talk | undefined): Promise<DebugLink> {
    const link = new DebugLink(talk);
    await new Promise<void>((resolve, reject) => {
      link.#server.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    link.#server.unref();
    return link;
  }

  private constructor(talk: Talk | undefined) {
    this.#talk = talk;
    this.#server = createServer((socket) => this.#accept(socket));
    this.#server.maxConnections = DEBUG_LINKS_MAX;
  }

  /** What the worker must know. */
  get address(): { readonly port: number; readonly token: string } {
    const { port } = this.#server.address() as { port: number };
    return { port, token: this.#token };
  }

  /** Ends the worker, in whatever it is. */
  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.unref();
    socket.on("error", () => {}).once("close", () => this.#sockets.delete(socket));
    socket.setTimeout(DEBUGGER_ANSWER_MAX_MS, () => socket.destroy());
    socket.once("data", (line) => {
      socket.setTimeout(0);
      if (this.#is(line, "ask")) this.#answer(socket);
      else if (!this.#is(line, "life")) socket.destroy();
      else socket.resume();
    });
  }

  #is(line: Buffer, word: string): boolean {
    const expected = Buffer.from(`${this.#token} ${word}\n`);
    return line.length === expected.length && timingSafeEqual(line, expected);
  }

  #answer(socket: Socket): void {
    if (this.#talk === undefined || this.#talking) {
      socket.end("no\n");
      return;
    }
    this.#talking = true;
    socket.once("close", () => {
      this.#talking = false;
    });
    socket.write("yes\n");
    this.#talk(socket);
  }
}
