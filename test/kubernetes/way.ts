/** A way to the API server that a test can cut, and mend: bytes pass it as they are. */
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

type Address = { readonly host: string; readonly port: number };

export class Way {
  readonly #to: () => Address;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(to: () => Address) {
    this.#to = to;
    this.#server = createServer((near) => this.#pass(near));
  }

  static async open(to: () => Address, host = "127.0.0.1", port = 0): Promise<Way> {
    const way = new Way(to);
    way.#server.listen(port, host);
    await once(way.#server, "listening");
    return way;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** What passes ends at once, and whoever comes anew is turned away. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }

  #pass(near: Socket): void {
    if (this.#isCut) {
      near.destroy();
      return;
    }
    const far = connect(this.#to());
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  }
}
