/**
 * The link between a platform and the one that the machines hang on, where several share endpoints. To the first that one is what a host is
 * to a platform, and the frames are the same (host-protocol.ts); both ask, and both answer.
 *
 *   borrower ──ASK prepare, start, stop, retire, list, vouched──▶ lender      borrower ◀──EVENT exited, started, …, available── lender
 *   borrower ──ASK rivals──▶ lender ──ASK room──▶ the other borrowers         who waits ──ASK take──▶ lender ──ASK take──▶ who has the worker
 */
import { SvcError } from "../../domain/errors.ts";
import {
  type AskHead,
  answerHead,
  askHead,
  type EventHead,
  eventHead,
  HOST_FRAME,
  reportHead,
} from "../../domain/host-protocol.ts";
import {
  LEND_ANSWER_MAX_BYTES,
  LEND_ASKS_MAX,
  LEND_PING_MS,
  LEND_SILENCE_MAX_MS,
  LEND_UNSENT_MAX_BYTES,
} from "../../domain/limits.ts";
import { FRAME } from "../../domain/worker-protocol.ts";
import { type Frame, FrameError, readHead } from "../../lib/frames.ts";
import { Standstill } from "../../lib/standstill.ts";
import { HostCalls } from "./host-calls.ts";
import type { HostChannel } from "./known-host.ts";

const MESSAGE_MAX_CHARS = 2_000;

export interface LendChannel extends HostChannel {
  /** Bytes that wait to leave. */
  readonly unsentBytes: number;
}

interface LendEnds {
  /** Who is at the other end, for messages. */
  readonly who: string;
  /** What the other end asks, by name; throws what is in the way. */
  asked(call: string, body: Buffer, report: (line: string) => void): Promise<object>;
  happened(event: EventHead, body: Buffer): void;
  closed(): void;
}

export class LendLink {
  readonly #channel: LendChannel;
  readonly #ends: LendEnds;
  readonly #calls: HostCalls;
  readonly #stood = new Standstill(LEND_SILENCE_MAX_MS / 2);
  readonly #timer: NodeJS.Timeout;
  #underWay = 0;

  constructor(channel: LendChannel, ends: LendEnds) {
    this.#channel = channel;
    this.#ends = ends;
    this.#calls = new HostCalls(() => ends.who, LEND_ANSWER_MAX_BYTES);
    this.#timer = setInterval(() => this.#look(), LEND_PING_MS).unref();
    channel.onFrame = (frame) => this.#onFrame(frame);
    const { onClose } = channel;
    channel.onClose = () => {
      onClose();
      clearInterval(this.#timer);
      this.#calls.broke();
      ends.closed();
    };
  }

  get isOpen(): boolean {
    return this.#channel.isOpen;
  }

  /** Throws STARTS_PAUSED when no answer comes, and what the other end answers. */
  ask(call: Parameters<HostCalls["ask"]>[1], body?: object, report?: (line: string) => void): Promise<unknown> {
    if (!this.isOpen) return Promise.reject(this.#calls.away());
    return this.#calls.ask(this.#channel, call, body, report);
  }

  tell(event: EventHead, body?: Uint8Array): void {
    this.#send(HOST_FRAME.EVENT, event, body);
  }

  destroy(): void {
    this.#channel.destroy();
  }

  /** Throws FrameError: the link must be closed then. */
  #onFrame(frame: Frame): void {
    const { type, body } = frame;
    if (type === HOST_FRAME.ASK) this.#asked(readHead(frame, askHead), body);
    else if (type === HOST_FRAME.ANSWER) this.#calls.answered(readHead(frame, answerHead), body);
    else if (type === HOST_FRAME.REPORT) this.#calls.reported(readHead(frame, reportHead));
    else if (type === HOST_FRAME.EVENT) this.#ends.happened(readHead(frame, eventHead), body);
    else if (type === FRAME.PING) this.#channel.send(FRAME.PONG, 0);
    else if (type !== FRAME.PONG) throw new FrameError(`it says ${type}`);
  }

  #asked({ id, call }: AskHead, body: Buffer): void {
    if (this.#underWay >= LEND_ASKS_MAX) {
      this.#send(HOST_FRAME.ANSWER, {
        id,
        error: inWords(new SvcError("STARTS_PAUSED", "Too much is asked at once.")),
      });
      return;
    }
    this.#underWay++;
    const report = (line: string) => this.#send(HOST_FRAME.REPORT, { id, line: line.slice(0, MESSAGE_MAX_CHARS) });
    const answered = async () => {
      try {
        const value = await this.#ends.asked(call, body, report);
        this.#send(HOST_FRAME.ANSWER, { id }, Buffer.from(JSON.stringify(value)));
      } catch (error) {
        this.#send(HOST_FRAME.ANSWER, { id, error: inWords(error) });
      } finally {
        this.#underWay--;
      }
    };
    answered().catch(() => this.destroy());
  }

  /** One that reads nothing is cut: it is asked anew what runs when it is back. */
  #send(type: number, head: object, body?: Uint8Array): void {
    if (!this.isOpen) return;
    this.#channel.send(type, 0, head, body);
    if (this.#channel.unsentBytes > LEND_UNSENT_MAX_BYTES) this.destroy();
  }

  #look(): void {
    const wasStopped = this.#stood.happened(); // What came meanwhile is not read yet.
    const silentMs = performance.now() - this.#channel.lastHeard;
    if (silentMs > LEND_SILENCE_MAX_MS && !wasStopped) this.destroy();
    else this.#channel.send(FRAME.PING, 0);
  }
}

function inWords(error: unknown): { code: string; message: string; help?: string | undefined } {
  const { code, message, help } =
    error instanceof SvcError
      ? error
      : { code: "STARTS_PAUSED", message: error instanceof Error ? error.message : String(error), help: undefined };
  return { code, message: message.slice(0, MESSAGE_MAX_CHARS), help: help?.slice(0, MESSAGE_MAX_CHARS) };
}
