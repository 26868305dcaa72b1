/**
 * The agent's link to its platform: dialled again whenever it is gone, and what is to be told kept meanwhile, within bounds.
 *
 *   down ──find the port, TLS, pin──▶ HELLO ──WELCOME──▶ greeted ──STATE──▶ up ──closed, or silent──▶ down
 *                                       └──REFUSED──▶ over: another try would end the same
 *
 * STATE is the first that the platform hears, so that it knows which workers run before it is told what they do.
 */
import { randomInt } from "node:crypto";
import { z } from "zod";
import {
  AGENT_BACKLOG_MAX_BYTES,
  AGENT_ENDS_KEPT_MAX,
  AGENT_GREETING_MAX_MS,
  AGENT_REDIAL_FIRST_MS,
  AGENT_REDIAL_MAX_MS,
} from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import {
  type AskHead,
  askHead,
  type EventHead,
  HOST_FRAME,
  type HostHello,
  type HostState,
  type HostWelcome,
  type HostWorkerExit,
  hostWelcome,
} from "../domain/host-protocol.ts";
import { LINK_PING_MS, LINK_SILENCE_MAX_MS } from "../domain/limits.ts";
import { FRAME, PROTOCOL_VERSION } from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import { Standstill } from "../lib/standstill.ts";
import { Connection } from "../worker-link/connection.ts";
import { awayWords, dialPinned, findWorkerPort, type JoinAddress, type WorkerPort, WrongPlatform } from "./dial.ts";

export interface LinkEvents {
  /** The platform let this machine in. Resolves the STATE to be sent; a rejection closes the link. */
  welcomed(welcome: HostWelcome, port: WorkerPort): Promise<Omit<HostState, "ended">>;
  /** Calls of the platform. */
  asked(ask: AskHead, body: Buffer): void;
  /** The link is gone; it is dialled again. */
  away(reason: string): void;
  /** The platform does not want this machine any more. */
  refused(error: SvcError): void;
}

interface LinkOptions {
  readonly address: JoinAddress;
  readonly hello: () => { readonly token: string; readonly host: HostHello };
  readonly events: LinkEvents;
}

interface Kept {
  readonly head: EventHead;
  readonly body: Uint8Array | undefined;
  readonly bytes: number;
}

const welcomeHead = (head: unknown): HostWelcome => hostWelcome(z.object({ host: z.unknown() }).parse(head).host);
const refusedHead = z.object({ reason: z.string().max(8_000) });

export class PlatformLink {
  readonly #options: LinkOptions;
  #connection: Connection | undefined;
  /** STATE was sent: the platform may be told things. */
  #isUp = false;
  #closed = false;
  #redial: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  #pauseMs = 0;
  /** What is wrong with the platform that answers, as it was told since it was up last. */
  #wrongTold = "";
  /** Ends of workers that nobody was told of. */
  #ends: HostWorkerExit[] = [];
  #backlog: Kept[] = [];
  #backlogBytes = 0;
  #draining = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Dials once. Throws what is in the way; `goOn` tries again by itself from then on. */
  async dial(): Promise<void> {
    const { address, events } = this.#options;
    const port = await findWorkerPort(address);
    const socket = await dialPinned(address, port);
    if (this.#closed) return void socket.destroy();
    const connection = new Connection(socket);
    let reason = "the connection was closed";
    connection.onError = (error) => {
      reason = `the platform broke the protocol: ${(error as Error).message}`;
    };
    const gone = new Promise<never>((_resolve, reject) => {
      connection.onClose = () => reject(new SvcError("PLATFORM_UNREACHABLE", `The platform left: ${reason}.`));
    });
    gone.catch(() => {});
    const late = setTimeout(() => {
      reason = "it did not answer in time";
      connection.destroy();
    }, AGENT_GREETING_MAX_MS);
    try {
      const early: Frame[] = [];
      const welcome = await Promise.race([this.#greet(connection, early), gone]);
      connection.trust();
      this.#connection = connection;
      const state = await Promise.race([events.welcomed(welcome, port), gone]);
      clearTimeout(late);
      connection.onFrame = (frame) => this.#onFrame(connection, frame);
      connection.onClose = () => this.#gone(connection, reason);
      this.sendState(state);
      this.#isUp = true;
      this.#wrongTold = "";
      this.#pauseMs = 0;
      for (const frame of early) this.#onFrame(connection, frame);
      this.#lookAfter(connection);
      this.#flush();
    } catch (error) {
      this.#connection = undefined;
      connection.destroy();
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  /** Dials until the platform is there. */
  goOn(): void {
    if (this.#closed || this.#redial !== undefined || this.#connection !== undefined) return;
    const pauseMs = this.#pauseMs;
    this.#pauseMs = Math.min(AGENT_REDIAL_MAX_MS, Math.max(AGENT_REDIAL_FIRST_MS, pauseMs * 2));
    // Machines that lost their platform together do not come back in one moment.
    this.#redial = setTimeout(
      () => {
        this.#dialAgain().catch(() => {});
      },
      pauseMs === 0 ? 0 : randomInt(Math.ceil(pauseMs / 2), pauseMs + 1),
    );
  }

  async #dialAgain(): Promise<void> {
    try {
      await this.dial();
      this.#redial = undefined;
    } catch (error) {
      this.#redial = undefined;
      if (this.#closed) return;
      if (error instanceof SvcError && error.code === "FORBIDDEN") return this.#options.events.refused(error);
      const wrong = error instanceof WrongPlatform ? awayWords(error) : "";
      if (wrong !== "" && wrong !== this.#wrongTold) {
        this.#wrongTold = wrong;
        this.#options.events.away(wrong);
      }
      this.goOn();
    }
  }

  /** Tells the platform, or keeps it for later: ends of workers for certain, what they print within bounds. */
  tell(head: EventHead, body?: Uint8Array): void {
    if (this.#isUp && this.#backlog.length === 0 && !this.#connection!.isBehind) {
      this.#connection!.send(HOST_FRAME.EVENT, 0, head, body);
      return;
    }
    if (head.event === "exited") {
      if (this.#isUp) this.#connection!.send(HOST_FRAME.EVENT, 0, head);
      else if (this.#ends.length < AGENT_ENDS_KEPT_MAX) this.#ends.push(head.of as HostWorkerExit);
      return;
    }
    const bytes = JSON.stringify(head).length + (body?.length ?? 0);
    if (this.#backlogBytes + bytes > AGENT_BACKLOG_MAX_BYTES) return;
    this.#backlog.push({ head, body, bytes });
    this.#backlogBytes += bytes;
    this.#flush();
  }

  /** A frame that means something only on the link that is there now. */
  send(type: number, head: object, body?: Uint8Array): void {
    if (this.#isUp) this.#connection!.send(type, 0, head, body);
  }

  sendState(state: Omit<HostState, "ended">): void {
    const ended = this.#ends;
    this.#ends = [];
    this.#connection?.send(HOST_FRAME.STATE, 0, undefined, Buffer.from(JSON.stringify({ ...state, ended })));
  }

  /** Says what is still to be said, and dials no more. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#redial);
    this.#connection?.close();
  }

  /** `early` gets what comes behind the answer. */
  async #greet(connection: Connection, early: Frame[]): Promise<HostWelcome> {
    const { token, host } = this.#options.hello();
    connection.send(FRAME.HELLO, 0, { protocol: PROTOCOL_VERSION, role: "host", token, pid: process.pid, host });
    const answer = await new Promise<Frame>((resolve) => {
      connection.onFrame = (frame) => {
        if (frame.type === FRAME.PING) return connection.send(FRAME.PONG, 0);
        connection.onFrame = (later) => early.push(later);
        resolve(frame);
      };
    });
    if (answer.type === FRAME.WELCOME) return readHead(answer, welcomeHead);
    if (answer.type !== FRAME.REFUSED)
      throw new SvcError("PLATFORM_UNREACHABLE", "The platform speaks another protocol.");
    const { reason } = readHead(answer, (head) => refusedHead.parse(head));
    throw new SvcError("FORBIDDEN", `The platform does not let this machine in: ${reason.replace(/\.$/, "")}.`, {
      help: "A new token lets a machine in once: svc host token create, where the platform is managed.",
    });
  }

  #onFrame(connection: Connection, frame: Frame): void {
    if (frame.type === HOST_FRAME.ASK) this.#options.events.asked(readHead(frame, askHead), frame.body);
    else if (frame.type === FRAME.PING) connection.send(FRAME.PONG, 0);
    else if (frame.type === FRAME.REFUSED) {
      const { reason } = readHead(frame, (head) => refusedHead.parse(head));
      this.#closed = true; // It is not dialled again.
      this.#options.events.refused(new SvcError("FORBIDDEN", `The platform lets this machine go: ${reason}.`));
    }
  }

  /** A machine that vanishes closes nothing. */
  #lookAfter(connection: Connection): void {
    const stood = new Standstill(LINK_SILENCE_MAX_MS / 2);
    this.#ping = setInterval(() => {
      const silentMs = performance.now() - connection.lastHeard;
      const wasStopped = stood.happened(); // What came meanwhile is not read yet.
      if (silentMs > LINK_SILENCE_MAX_MS && !wasStopped) connection.destroy();
      else if (silentMs > LINK_PING_MS / 2) connection.send(FRAME.PING, 0);
    }, LINK_PING_MS / 2);
  }

  #gone(connection: Connection, reason: string): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    this.#isUp = false;
    clearInterval(this.#ping);
    if (this.#closed) return;
    this.#options.events.away(reason);
    this.goOn();
  }

  /** What was kept leaves as fast as the platform takes it. */
  #flush(): void {
    if (this.#draining || !this.#isUp) return;
    this.#draining = true;
    this.#sendBacklog()
      .finally(() => {
        this.#draining = false;
      })
      .catch(() => {});
  }

  async #sendBacklog(): Promise<void> {
    const connection = this.#connection!;
    while (this.#backlog.length > 0) {
      await connection.drained();
      if (!this.#isUp || this.#connection !== connection) return;
      const { head, body, bytes } = this.#backlog.shift()!;
      this.#backlogBytes -= bytes;
      connection.send(HOST_FRAME.EVENT, 0, head, body);
    }
  }
}
