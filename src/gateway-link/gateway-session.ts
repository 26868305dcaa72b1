/** The owner's end of one gateway's link: its questions, its requests that stream, and whether it is still there. */
import {
  GATEWAY_ACK_MAX_MS,
  GATEWAY_ASKS_MAX,
  GATEWAY_PING_MS,
  GATEWAY_SILENCE_MAX_MS,
  GATEWAY_UNSENT_MAX_BYTES,
} from "../domain/limits.ts";
import { type Frame, FrameError, parseHead } from "../lib/frames.ts";
import { Standstill } from "../lib/standstill.ts";
import type { Connection } from "../worker-link/connection.ts";
import { type Answer, ASKED, type AskedOf, Asker, TOLD } from "./asked.ts";
import { ForwardedRequest } from "./forwarded-request.ts";
import type { RequestValue } from "./owner-forwarder.ts";
import type { Changed } from "./owner-link.ts";
import { failedHead, INTERNAL, LINK_FRAME, readValue, sendValue } from "./protocol.ts";

export class GatewaySession {
  readonly #connection: Connection;
  readonly #deps: AskedOf;
  readonly #cut: (reason: string) => void;
  /** What a CANCEL ends, by number. */
  readonly #waits = new Map<number, Asker>();
  readonly #requests = new Map<number, ForwardedRequest>();
  /** Endpoints for which a worker's call is open, as often as there are such calls. */
  readonly #peers = new Map<number, () => void>();
  readonly #acks = new Map<number, () => void>();
  #seq = 0;
  #owesPong = false;
  #asks = 0;
  readonly #ping: NodeJS.Timeout;
  readonly #stood = new Standstill(GATEWAY_SILENCE_MAX_MS / 2);

  constructor(connection: Connection, deps: AskedOf, cut: (reason: string) => void) {
    this.#connection = connection;
    this.#deps = deps;
    this.#cut = cut;
    this.#ping = setInterval(() => this.#lookAfter(), GATEWAY_PING_MS);
  }

  onFrame(frame: Frame): void {
    const { channel } = frame;
    switch (frame.type) {
      case LINK_FRAME.ASK:
        this.#asked(frame);
        break;
      case LINK_FRAME.CANCEL:
        this.#requests.get(channel)?.cancel();
        this.#waits.get(channel)?.gone();
        break;
      case LINK_FRAME.BODY:
      case LINK_FRAME.WINDOW:
        this.#requests.get(channel)?.onFrame(frame);
        break;
      case LINK_FRAME.TELL: {
        const { value } = readValue<{ what: string }>(frame);
        TOLD[value.what]?.(value as never, this.#deps, this.#peers);
        break;
      }
      case LINK_FRAME.ACKED:
        this.#acks.get(parseHead<{ seq: number }>(frame).seq)?.();
        break;
      case LINK_FRAME.PING:
        this.#owesPong = true;
        this.#pong();
        break;
      case LINK_FRAME.PONG:
        break;
      default:
        throw new FrameError(`a gateway sent a frame of type ${frame.type}`);
    }
  }

  /** Resolves when the gateway has dropped what it knew, or is out. */
  changed(change: Changed, isAwaited: boolean): Promise<void> | undefined {
    const { table, id } = change;
    if (!isAwaited) {
      sendValue(this.#connection, LINK_FRAME.CHANGED, 0, { table, id });
      return undefined;
    }
    const seq = ++this.#seq;
    sendValue(this.#connection, LINK_FRAME.CHANGED, 0, { table, id, seq });
    return new Promise((resolve) => {
      const late = setTimeout(() => this.#cut("it did not say that it dropped what had changed"), GATEWAY_ACK_MAX_MS);
      this.#acks.set(seq, () => {
        clearTimeout(late);
        this.#acks.delete(seq);
        resolve();
      });
    });
  }

  end(graceMs: number): void {
    sendValue(this.#connection, LINK_FRAME.CLOSE, 0, { graceMs });
  }

  /** The link is gone: nobody waits for anything any more. What was accepted goes on. */
  closed(): void {
    clearInterval(this.#ping);
    for (const asker of this.#waits.values()) asker.gone();
    for (const request of this.#requests.values()) request.cancel();
    for (const leave of this.#peers.values()) leave();
    for (const ack of [...this.#acks.values()]) ack();
  }

  #asked(frame: Frame): void {
    if (++this.#asks > GATEWAY_ASKS_MAX) {
      this.#cut("it asked for more at once than it may");
      return;
    }
    const { channel } = frame;
    const { value, body } = readValue<{ op: string }>(frame);
    if (value.op === "forward") {
      this.#forward(frame, (value as never as { request: RequestValue }).request, body);
      return;
    }
    const asked = ASKED[value.op];
    if (asked === undefined) throw new FrameError(`a gateway asked for ${value.op}`);
    const asker = new Asker();
    if (asked.waits) this.#waits.set(channel, asker);
    this.#deps.own("answering a gateway", this.#answer(channel, asked.answer(value as never, body, this.#deps, asker)));
  }

  async #answer(channel: number, answering: Promise<Answer>): Promise<void> {
    try {
      const { value, parts } = await answering;
      this.#send(LINK_FRAME.ANSWER, channel, value, parts);
    } catch (error) {
      const head = failedHead(error);
      this.#send(LINK_FRAME.FAILED, channel, head ?? INTERNAL);
      if (head === undefined) throw error;
    } finally {
      this.#asks--;
      this.#waits.delete(channel);
    }
  }

  #forward(frame: Frame, request: RequestValue, body: Buffer): void {
    const { channel } = frame;
    const forwarded = new ForwardedRequest(frame, request, body, (type, value, parts, flags) =>
      this.#send(type, channel, value, parts, flags),
    );
    this.#requests.set(channel, forwarded);
    const over = forwarded
      .pass(this.#deps.forwarder, () => this.#connection.drained())
      .finally(() => {
        this.#asks--;
        this.#requests.delete(channel);
      });
    this.#deps.own("forwarding a gateway's request", over);
  }

  #send(type: number, channel: number, value: object, parts?: readonly Uint8Array[], flags = 0): void {
    if (!this.#connection.isOpen) return;
    sendValue(this.#connection, type, channel, value, parts, flags);
    if (this.#connection.unsentBytes > GATEWAY_UNSENT_MAX_BYTES) this.#cut("it does not read what it asked for");
  }

  /** Says that the gateway has been told of all that was changed: as long as that is sure. */
  #pong(): void {
    if (!this.#owesPong || this.#deps.isSure?.() === false) return;
    this.#owesPong = false;
    this.#connection.send(LINK_FRAME.PONG, 0);
  }

  #lookAfter(): void {
    this.#pong();
    const silentMs = performance.now() - this.#connection.lastHeard;
    const wasStopped = this.#stood.happened(); // What came meanwhile is not read yet.
    if (silentMs > GATEWAY_SILENCE_MAX_MS && !wasStopped) this.#cut("it said nothing for too long");
    else if (silentMs > GATEWAY_PING_MS / 2) this.#connection.send(LINK_FRAME.PING, 0);
  }
}
