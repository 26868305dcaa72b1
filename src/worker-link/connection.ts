/**
 * One framed connection. Frames sent in one turn of the event loop leave in one write, jobs of one commit too; an
 * acknowledgement, which nobody is in a hurry for, goes with the next frame.
 */
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { TLSSocket } from "node:tls";
import {
  ACK_DELAY_MAX_MS,
  FRAME_MAX_BYTES,
  LINK_ACKS_UNREAD_MAX,
  LINK_CLOSE_MAX_MS,
  LINK_GREETING_MAX_BYTES,
} from "../domain/limits.ts";
import { FRAME } from "../domain/worker-protocol.ts";
import { encodeFrame, type Frame, FrameReader, OutgoingFrame } from "../lib/frames.ts";
import { BusyPoll } from "./busy-poll.ts";

const JOIN_MAX_BYTES = 64 * 1024;

export class Connection {
  readonly #socket: Socket;
  readonly #reader = new FrameReader(LINK_GREETING_MAX_BYTES);
  #outgoing: OutgoingFrame[] = [];
  #outgoingBytes = 0;
  #flushScheduled = false;
  readonly #poll = new BusyPoll();
  /** Work is among what waits to leave: its result may come in a moment. */
  #expectsAnswer = false;
  /** Runs while nothing but acknowledgements waits. */
  #lateFlush: NodeJS.Timeout | undefined;
  /** Sent while the peer reads nothing. */
  #acksUnread = 0;
  /** Those who want nothing read at the moment. */
  #pauses = 0;
  #rest: NodeJS.Timeout | undefined;
  /** Another platform has let it through: it belongs here or nowhere. */
  isPassed = false;
  /** When something was last heard, in milliseconds of `performance.now()`. */
  lastHeard = performance.now();
  onFrame: (frame: Frame) => void = () => {};
  onClose: () => void = () => {};
  onError: (error: unknown) => void = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      clearTimeout(this.#rest);
      this.onClose();
    });
  }

  /** `freesBody`: the memory of its buffer is given back when it has left; nobody else may have any of it. */
  send(type: number, channel: number, head?: object | string, body?: Uint8Array, flags = 0, freesBody = false): void {
    const frame = new OutgoingFrame(type, channel, head, body, flags, freesBody);
    this.#outgoing.push(frame);
    this.#outgoingBytes += frame.bytes;
    if (type === FRAME.JOB || type === FRAME.REQUEST) this.#expectsAnswer = true;
    else if (type === FRAME.ACK) this.#countAck();
    if (this.#flushScheduled) return;
    if (type === FRAME.ACK) {
      this.#lateFlush ??= setTimeout(this.#flush, ACK_DELAY_MAX_MS);
      return;
    }
    this.#flushScheduled = true;
    // Jobs follow a commit, which has gathered the work of a turn already.
    if (type === FRAME.JOB) process.nextTick(this.#flush);
    else setImmediate(this.#flush);
  }

  /** It came by the private socket, not over the network. */
  get isLocal(): boolean {
    return !(this.#socket instanceof TLSSocket);
  }

  /** The other end has proved who it is: its frames may be as large as frames get. */
  trust(frameMaxBytes = FRAME_MAX_BYTES): void {
    this.#reader.maxBytes = frameMaxBytes;
  }

  /** Bytes that wait to leave. */
  get unsentBytes(): number {
    return this.#outgoingBytes + this.#socket.writableLength;
  }

  get isPaused(): boolean {
    return this.#pauses > 0;
  }

  /** What was sent waits: the peer does not read it. */
  get isBehind(): boolean {
    return this.#socket.writableNeedDrain;
  }

  /** All that was sent is with the kernel. */
  get isFlushed(): boolean {
    return this.#outgoing.length === 0 && this.#socket.writableLength === 0;
  }

  /** Resolves when what was sent so far has left far enough that more may be sent. */
  async drained(): Promise<void> {
    this.#flush();
    if (!this.#socket.writableNeedDrain || this.#socket.destroyed) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#socket.off("drain", done);
        this.#socket.off("close", done);
        resolve();
      };
      this.#socket.on("drain", done);
      this.#socket.on("close", done);
    });
  }

  /** Resolves when all that the peer said has been read, because it has closed its end; at the latest after `maxMs`. */
  async heardOut(maxMs: number): Promise<void> {
    if (this.#socket.destroyed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, maxMs);
    this.#socket.once("close", resolve);
    await promise;
    clearTimeout(late);
    this.#socket.off("close", resolve);
  }

  /** Says what is still to be said, as far as the peer takes it in a moment, and closes. */
  close(): void {
    this.#flush();
    const late = setTimeout(() => this.destroy(), LINK_CLOSE_MAX_MS);
    this.#socket.once("close", () => clearTimeout(late));
    this.#socket.end(() => this.destroy());
  }

  /** Closes now, also when the peer reads nothing. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Nothing more is read until as many `resume`; what was read already may still come. */
  pause(): void {
    if (this.#pauses++ === 0) this.#socket.pause();
  }

  resume(): void {
    if (--this.#pauses > 0) return;
    this.lastHeard = performance.now(); // Who was not listened to was not silent.
    this.#socket.resume();
  }

  /** Nothing more is read until `owedMs` says 0. */
  restWhile(owedMs: () => number): void {
    const look = () => {
      const ms = owedMs();
      if (ms > 0 && this.#rest === undefined) this.pause();
      else if (ms === 0 && this.#rest !== undefined) this.resume();
      this.#rest = ms > 0 ? setTimeout(look, ms) : undefined;
    };
    if (this.#rest === undefined && this.isOpen) look();
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  /** These frames, which it said, and all that it says from now on go to `to`, and what that says to it: nobody here has it any more. */
  passOn(to: Socket, said: readonly Frame[]): void {
    this.#socket.removeAllListeners("data");
    for (const { type, channel, headBytes, body, flags } of said) {
      for (const part of encodeFrame(type, channel, headBytes.toString("utf8"), body, flags)) to.write(part);
    }
    if (this.#reader.rest.length > 0) to.write(this.#reader.rest);
    pipeline(this.#socket, to, this.#socket, () => {});
  }

  readonly #flush = (): void => {
    this.#flushScheduled = false;
    clearTimeout(this.#lateFlush);
    this.#lateFlush = undefined;
    const frames = this.#outgoing;
    if (frames.length === 0 || this.#socket.destroyed) return;
    if (this.#expectsAnswer) this.#poll.expect();
    this.#expectsAnswer = false;
    const bytes = this.#outgoingBytes;
    this.#outgoing = [];
    this.#outgoingBytes = 0;
    if (bytes <= JOIN_MAX_BYTES) {
      const joined = Buffer.allocUnsafe(bytes);
      let end = 0;
      for (const frame of frames) {
        end = frame.copyTo(joined, end);
        frame.left?.();
      }
      this.#socket.write(joined);
      return;
    }
    this.#socket.cork();
    for (const frame of frames) {
      const [start, body] = frame.parts();
      this.#socket.write(start!);
      if (body !== undefined) this.#socket.write(body, frame.left);
    }
    this.#socket.uncork();
  };

  /** A peer that sends results and reads nothing must not fill the memory with what it is told about them. */
  #countAck(): void {
    if (!this.#socket.writableNeedDrain) this.#acksUnread = 0;
    else if (++this.#acksUnread > LINK_ACKS_UNREAD_MAX) this.destroy();
  }

  #receive(chunk: Buffer): void {
    this.lastHeard = performance.now();
    this.#poll.arrived();
    try {
      for (const frame of this.#reader.push(chunk)) this.onFrame(frame);
    } catch (error) {
      // The peer broke the protocol: nothing after this point can be trusted.
      this.onError(error);
      this.#socket.destroy();
    }
  }
}
