/**
 * A platform as an agent sees it, played by a test: its HTTP side with /hosts/join and layers, and its end of the link. Nothing is
 * decided here; the test asks.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { SvcError } from "../../src/domain/errors.ts";
import {
  type AnswerHead,
  answerHead,
  type EventHead,
  eventHead,
  HOST_FRAME,
  type HostCall,
  type HostHello,
  type HostState,
  hostState,
} from "../../src/domain/host-protocol.ts";
import { VERSION } from "../../src/domain/version.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION } from "../../src/domain/worker-protocol.ts";
import { type Frame, readHead } from "../../src/lib/frames.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import { refuse } from "../../src/worker-link/reception.ts";

export const TOKEN = "svch_let-me-in";
export const PLATFORM_ID = "the-platform";

/** What was asked may have been done. */
export class LinkBroke extends Error {
  override readonly message = "the link broke";
}

type Waiting = PromiseWithResolvers<{ readonly [key: string]: unknown }> & { readonly report: (line: string) => void };

export class PlatformEnd {
  readonly #artifacts: () => ArtifactStore;
  /** Where it listens. */
  readonly #host: string;
  readonly #happens = new EventEmitter();
  readonly #asked = new Map<number, Waiting>();
  readonly events: EventHead[] = [];
  #server: Server | undefined;
  #connection: Connection | undefined;
  #ids = 0;
  /** Tokens that let in once, and what an agent has since. */
  readonly tokens = new Set([TOKEN]);
  readonly secrets = new Set<string>();
  /** Whether a token lets in that is none of those. */
  admits: (token: string) => boolean = () => false;
  hello: HostHello | undefined;
  state: HostState | undefined;
  /** In place of the usual answer of its HTTP side; true: it was given. */
  respond: (req: IncomingMessage, res: ServerResponse) => boolean = () => false;
  /** Why nobody is let in. */
  refusal = "";
  workerPort = 0;
  /** Of its certificate. */
  fingerprint = "";
  httpPort = 0;
  onEvent: (head: EventHead, body: Buffer) => void = () => {};
  onState: (state: HostState) => void = () => {};

  constructor(artifacts: () => ArtifactStore, host = "127.0.0.1") {
    this.#artifacts = artifacts;
    this.#host = host;
    this.#happens.setMaxListeners(0);
  }

  get url(): string {
    return `http://${this.#host}:${this.httpPort}`;
  }

  get isUp(): boolean {
    return this.#connection?.isOpen === true && this.state !== undefined;
  }

  /** On the port it had before, if it had one. */
  async listen(workerPort: number): Promise<void> {
    this.workerPort = workerPort;
    this.#server = createServer((req, res) => {
      this.#answer(req, res).catch((error) => res.destroy(error as Error));
    });
    this.#server.listen(this.httpPort, this.#host);
    await once(this.#server, "listening");
    this.httpPort = (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#connection?.destroy();
    this.#server?.closeAllConnections();
    await new Promise<void>((resolve) => this.#server?.close(() => resolve()) ?? resolve());
  }

  /** The agent's link breaks. */
  cut(): void {
    this.#connection?.destroy();
  }

  /** Resolves when an agent has said what runs on its machine. */
  async up(): Promise<HostState> {
    while (!this.isUp) await once(this.#happens, "change");
    return this.state!;
  }

  async down(): Promise<void> {
    while (this.#connection?.isOpen) await once(this.#happens, "change");
  }

  async event(fits: (head: EventHead) => boolean): Promise<EventHead> {
    for (;;) {
      const found = this.events.find(fits);
      if (found !== undefined) return found;
      await once(this.#happens, "change");
    }
  }

  ask(call: HostCall, body: object = {}, report: (line: string) => void = () => {}) {
    assert.ok(this.#connection !== undefined, "no agent has joined");
    const id = ++this.#ids;
    const waiting = { ...Promise.withResolvers<{ readonly [key: string]: unknown }>(), report };
    this.#asked.set(id, waiting);
    this.#connection.send(HOST_FRAME.ASK, 0, { id, call }, Buffer.from(JSON.stringify(body)));
    return waiting.promise;
  }

  attachHost(connection: Connection, { token, host }: HelloHead): void {
    this.hello = host;
    const isNew = this.tokens.delete(token) || this.admits(token);
    const secret = isNew ? `secret-${randomUUID()}` : undefined;
    if (secret !== undefined) this.secrets.add(secret);
    else if (!this.secrets.has(token)) return void refuse(connection, "its token is not known, or was used");
    if (this.refusal !== "") return void refuse(connection, this.refusal);
    connection.trust();
    const welcome = { hostId: "h1", secret, platformId: PLATFORM_ID, version: VERSION };
    connection.send(FRAME.WELCOME, 0, { protocol: PROTOCOL_VERSION, host: welcome });
    // The end of the one before may be noticed later, or never.
    this.#broke();
    this.#connection = connection;
    this.state = undefined;
    const onClose = connection.onClose;
    connection.onClose = () => {
      onClose();
      if (this.#connection === connection) this.#broke();
      this.#happens.emit("change");
    };
    connection.onFrame = (frame) => this.#onFrame(connection, frame);
  }

  #broke(): void {
    for (const { reject } of this.#asked.values()) reject(new LinkBroke());
    this.#asked.clear();
  }

  #onFrame(connection: Connection, frame: Frame): void {
    const { type, body } = frame;
    if (type === FRAME.PING) connection.send(FRAME.PONG, 0);
    else if (type === HOST_FRAME.STATE) {
      this.state = hostState(JSON.parse(body.toString("utf8")));
      this.onState(this.state);
    } else if (type === HOST_FRAME.ANSWER) this.#answered(readHead(frame, answerHead), body);
    else if (type === HOST_FRAME.REPORT) {
      const { id, line } = readHead(frame, (head) => head as { id: number; line: string });
      this.#asked.get(id)?.report(line);
    } else if (type === HOST_FRAME.EVENT) {
      const head = readHead(frame, eventHead);
      this.events.push(head);
      this.onEvent(head, body);
    }
    this.#happens.emit("change");
  }

  #answered({ id, error }: AnswerHead, body: Buffer): void {
    const waiting = this.#asked.get(id);
    this.#asked.delete(id);
    if (error === undefined) waiting?.resolve(JSON.parse(body.toString("utf8")));
    else waiting?.reject(new SvcError(error.code as "INTERNAL", error.message, { help: error.help }));
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (this.respond(req, res)) return;
    const { pathname } = new URL(req.url!, "http://any");
    if (pathname === "/hosts/join") {
      const { workerPort: port, fingerprint } = this;
      return void res.end(JSON.stringify({ protocol: 1, port, host: "", version: VERSION, fingerprint }));
    }
    const [, digest] = /^\/layers\/([0-9a-f]{64})$/.exec(pathname) ?? [];
    if (digest === undefined) return void res.writeHead(404).end();
    if (req.headers.authorization !== `Bearer ticket of ${digest}`) return void res.writeHead(401).end();
    res.end(await buffer(await this.#artifacts().open(digest)));
  }
}
