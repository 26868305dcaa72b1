/**
 * The owner's end: gateways dial in, prove themselves by a secret on the private socket, and before they come here over TLS, and ask. What changed in the store is told to all
 * of them; a gateway that does not answer that in time is counted out: without its link nothing that it still knows reaches anything.
 */
import { hash, timingSafeEqual } from "node:crypto";
import { createServer, type Server, type Socket } from "node:net";
import { z } from "zod";
import { GATEWAY_FRAME_MAX_BYTES, LINK_GREETERS_MAX, LINK_GREETING_MAX_MS } from "../domain/limits.ts";
import { AwaitedSet } from "../lib/awaited-set.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import { listenPrivately } from "../lib/listen-privately.ts";
import { Connection } from "../worker-link/connection.ts";
import type { AskedOf } from "./asked.ts";
import { GatewaySession } from "./gateway-session.ts";
import type { Changed } from "./owner-link.ts";
import { LINK_FRAME, LINK_VERSIONS, sendValue } from "./protocol.ts";
import type { SharedSettings } from "./settings.ts";

const helloHead = z.object({
  link: z.tuple([z.int(), z.int()]),
  secret: z.string().max(200).optional(),
  pid: z.int(),
});

export interface GatewayDoorDeps extends AskedOf {
  /** Undefined: whoever is accepted has proved itself. */
  readonly secret: string | undefined;
  readonly settings: SharedSettings;
  /** The gateway of this process has no link any more. */
  gone(pid: number, reason: string): void;
}

export class GatewayDoor {
  readonly #deps: GatewayDoorDeps;
  readonly #sessions = new AwaitedSet<GatewaySession>();
  readonly #connections = new Set<Connection>();
  readonly #greeting = new Set<Connection>();
  #isClosed = false;
  #server: Server | undefined;

  constructor(deps: GatewayDoorDeps) {
    this.#deps = deps;
  }

  async listen(socketPath: string): Promise<void> {
    const server = createServer((socket) => this.accept(socket));
    await listenPrivately(server, socketPath);
    this.#server = server;
  }

  /** How many gateways have a link. */
  get count(): number {
    return this.#sessions.size;
  }

  /** Tells all gateways. What has to be refused or found by all of them from then on is waited for. */
  changed(change: Changed): Promise<void> | undefined {
    if (this.#sessions.size === 0) return undefined;
    // Tokens of workers come and go with them, and no caller waits for that.
    const isAwaited = change.table !== "workers";
    const acks = [...this.#sessions].map((session) => session.changed(change, isAwaited));
    return isAwaited ? Promise.all(acks).then(() => {}) : undefined;
  }

  /** Resolves when none has a link. */
  left(): Promise<void> {
    return this.#sessions.empty();
  }

  /** Gateways stop accepting and answer what runs. */
  endAll(graceMs: number): void {
    for (const session of this.#sessions) session.end(graceMs);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const server = this.#server;
    const closed = server && new Promise<void>((resolve) => server.close(() => resolve()));
    for (const connection of this.#connections) connection.destroy();
    await closed;
  }

  accept(socket: Socket): void {
    if (this.#isClosed || this.#greeting.size >= LINK_GREETERS_MAX) {
      socket.destroy();
      return;
    }
    const connection = new Connection(socket);
    this.#connections.add(connection);
    this.#greeting.add(connection);
    const late = setTimeout(() => connection.destroy(), LINK_GREETING_MAX_MS);
    const greeted = () => {
      this.#greeting.delete(connection);
      clearTimeout(late);
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
    if (frame.type !== LINK_FRAME.HELLO) {
      connection.destroy();
      return;
    }
    const { link, secret, pid } = readHead(frame, (head) => helloHead.parse(head));
    const version = Math.min(link[1], LINK_VERSIONS.max);
    const refused = !isSame(secret, this.#deps.secret)
      ? "the secret is not that of this platform"
      : version < Math.max(link[0], LINK_VERSIONS.min)
        ? `the link's versions ${link.join(" to ")} are not spoken here`
        : undefined;
    if (refused !== undefined) {
      sendValue(connection, LINK_FRAME.REFUSED, 0, { reason: refused });
      connection.onFrame = () => {};
      connection.close();
      return;
    }
    connection.trust(GATEWAY_FRAME_MAX_BYTES);
    sendValue(connection, LINK_FRAME.WELCOME, 0, { link: version, settings: this.#deps.settings });
    let reason = "it closed its link";
    const session = new GatewaySession(connection, this.#deps, (why) => {
      reason = why;
      connection.destroy();
    });
    connection.onFrame = (next) => session.onFrame(next);
    connection.onError = (error) => {
      reason = `it broke the protocol: ${(error as Error).message}`;
    };
    connection.onClose = () => {
      this.#connections.delete(connection);
      this.#sessions.delete(session);
      session.closed();
      this.#deps.gone(pid, reason);
    };
    this.#sessions.add(session);
  }
}

/** In the same time whatever was sent. */
function isSame(given = "", secret: string | undefined): boolean {
  if (secret === undefined) return true;
  return timingSafeEqual(hash("sha256", given, "buffer"), hash("sha256", secret, "buffer"));
}
