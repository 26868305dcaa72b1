/**
 * Where workers and launchers dial in: the private socket, and a TLS port for those of other machines. Whoever does not
 * say HELLO in time, says too much before it, or says anything else is shown the door; who they are is checked behind it.
 */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { createSecureContext, TLSSocket } from "node:tls";
import { cannotListen } from "../domain/cannot-listen.ts";
import { helloBody, helloHead } from "../domain/frame-heads.ts";
import { LINK_GREETERS_MAX, LINK_GREETING_MAX_MS, LINK_PING_MS, LINK_TAKEOVER_MS } from "../domain/limits.ts";
import { FRAME, type HelloHead, unspoken } from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import { listenPrivately } from "../lib/listen-privately.ts";
import { Connection } from "./connection.ts";

const TAKEOVER_POLL_MS = 10;

export interface TlsListen {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** PEM. */
  readonly key: string;
  readonly cert: string;
}

/** `again` lets it say HELLO once more, whenever it does. */
type OnHello = (connection: Connection, hello: HelloHead, again: () => void, frame: Frame) => void;

export class Reception {
  readonly #onHello: OnHello;
  readonly #servers: Server[] = [];
  readonly #connections = new Set<Connection>();
  /** Those who have not said HELLO. */
  readonly #greeting = new Set<Socket>();

  /** `onHello` gets every connection that speaks our protocol, and whoever it says it is. */
  constructor(onHello: OnHello) {
    this.#onHello = onHello;
  }

  async listen(socketPath: string): Promise<void> {
    const server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    await listenPrivately(server, socketPath);
    this.#servers.push(server);
  }

  /** Resolves the port. Anything but TLS 1.3 ends in the handshake. */
  async listenTls({ host, port, key, cert }: TlsListen): Promise<number> {
    const secureContext = createSecureContext({ key, cert, minVersion: "TLSv1.3" });
    const options = { noDelay: true, keepAlive: true, keepAliveInitialDelay: LINK_PING_MS };
    const server = createServer(options, (socket) => {
      if (this.#greeting.size >= LINK_GREETERS_MAX) socket.destroy();
      else this.#accept(new TLSSocket(socket, { isServer: true, secureContext }));
    });
    await new Promise<void>((resolve, reject) => {
      // Later ones are of single connections, as when no file can be opened: those workers dial again.
      server.on("error", (error) => reject(cannotListen(error, host, port, "SVC_WORKER_LISTEN")));
      server.listen({ host, port }, resolve);
    });
    this.#servers.push(server);
    return (server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = this.#servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    for (const socket of this.#greeting) socket.destroy();
    for (const connection of this.#connections) connection.close();
    await Promise.all(closed);
  }

  /** One that another platform has let through. */
  accept(socket: Socket): void {
    this.#accept(socket, true);
  }

  #accept(socket: Socket, isPassed = false): void {
    const connection = new Connection(socket);
    connection.isPassed = isPassed;
    this.#connections.add(connection);
    this.#greeting.add(socket);
    const late = setTimeout(() => socket.destroy(), LINK_GREETING_MAX_MS);
    const greeted = () => {
      clearTimeout(late);
      this.#greeting.delete(socket);
    };
    connection.onClose = () => {
      greeted();
      this.#connections.delete(connection);
    };
    connection.onFrame = (frame) => {
      greeted();
      this.#greet(connection, frame);
    };
  }

  #greet(connection: Connection, frame: Frame): void {
    if (frame.type !== FRAME.HELLO) {
      connection.close();
      return;
    }
    const head = readHead(frame, helloHead);
    const { body } = frame;
    const hello =
      body.length === 0 ? head : { ...head, unacknowledged: readHead({ ...frame, headBytes: body }, helloBody) };
    const again = () => {
      connection.onFrame = (next) => this.#greet(connection, next);
    };
    const problem = unspoken(hello.protocol);
    if (problem === undefined) this.#onHello(connection, hello, again, frame);
    else refuse(connection, problem);
  }
}

/** Says why, and closes. */
export function refuse(connection: Connection, reason: string): void {
  connection.send(FRAME.REFUSED, 0, { reason });
  connection.close();
}

/** Whether something is heard of the peer in a moment. */
export async function answers(connection: Connection): Promise<boolean> {
  const asked = performance.now();
  connection.send(FRAME.PING, 0);
  while (connection.isOpen && performance.now() - asked < LINK_TAKEOVER_MS) {
    await delay(TAKEOVER_POLL_MS);
    if (connection.lastHeard > asked) return connection.isOpen;
  }
  return false;
}
