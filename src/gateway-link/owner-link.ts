/**
 * The gateway's end of the link: what it asks of the owner, and what that answers. When the link breaks, everything that waits fails, and
 * `onClosed` is told; nobody dials again on it.
 */

import { SvcError } from "../domain/errors.ts";
import { CHANNEL_MAX, GATEWAY_ACK_MAX_MS, GATEWAY_FRAME_MAX_BYTES } from "../domain/limits.ts";
import { MORE } from "../domain/worker-protocol.ts";
import { type Frame, parseHead } from "../lib/frames.ts";
import { Standstill } from "../lib/standstill.ts";
import type { Connection } from "../worker-link/connection.ts";
import { errorOf, type FailedHead, LINK_FRAME, readValue, sendValue } from "./protocol.ts";

export interface Changed {
  readonly table: "keys" | "workers" | "endpoints";
  readonly id: string;
}

export interface Answered<T> {
  readonly value: T;
  readonly body: Buffer;
}

/** Often enough to know it in GATEWAY_ACK_MAX_MS. */
const LINK_WATCH_MS = GATEWAY_ACK_MAX_MS / 4;

/** What is open under one number. */
export interface Open {
  /** True: nothing more comes. */
  onFrame(frame: Frame): boolean;
  lost(error: SvcError): void;
}

const NO_PARTS: readonly Uint8Array[] = [];

export class OwnerLink {
  readonly #connection: Connection;
  readonly #open = new Map<number, Open>();
  readonly #onChange: ((change: Changed) => unknown)[] = [];
  #next = 0;
  #watch: NodeJS.Timeout | undefined;
  /** When the last PING that was answered was sent: what the owner told before is here. */
  #sureAt = performance.now();
  #pingedAt: number | undefined;
  onClosed: (reason: string) => void = () => {};
  /** The owner wants it to end, after at most `graceMs`. */
  onClose: (graceMs: number) => void = () => {};

  /** On a connection whose owner has let it in; `early` came behind that. */
  constructor(connection: Connection, early: readonly Frame[]) {
    this.#connection = connection;
    let reason = "the owner closed it";
    connection.trust(GATEWAY_FRAME_MAX_BYTES);
    connection.onFrame = (frame) => this.#onFrame(frame);
    connection.onError = (error) => {
      reason = `the owner broke the protocol: ${(error as Error).message}`;
    };
    connection.onClose = () => this.#lost(reason);
    for (const frame of early) this.#onFrame(frame);
  }

  /** Rejects with the owner's error. `signal`: the owner is told that nobody waits any more, and answers then. */
  ask<T>(
    op: string,
    given: object,
    parts: readonly Uint8Array[] = NO_PARTS,
    signal?: AbortSignal,
  ): Promise<Answered<T>> {
    return new Promise((resolve, reject) => {
      const channel = this.open({
        onFrame(frame) {
          signal?.removeEventListener("abort", cancel);
          if (frame.type === LINK_FRAME.ANSWER) resolve(readValue<T>(frame));
          else reject(errorOf(parseHead<FailedHead>(frame)));
          return true;
        },
        lost: (error) => {
          signal?.removeEventListener("abort", cancel);
          reject(error);
        },
      });
      const cancel = () => this.#connection.send(LINK_FRAME.CANCEL, channel);
      sendValue(this.#connection, LINK_FRAME.ASK, channel, { op, ...given }, parts);
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
  }

  tell(what: string, given: object): void {
    if (this.#connection.isOpen) sendValue(this.#connection, LINK_FRAME.TELL, 0, { what, ...given });
  }

  /** Whoever made the change waits for a promise that `listener` returns. */
  onChange(listener: (change: Changed) => unknown): void {
    this.#onChange.push(listener);
  }

  /** For what takes more than a question and an answer. */
  open(open: Open): number {
    do this.#next = this.#next === CHANNEL_MAX ? 1 : this.#next + 1;
    while (this.#open.has(this.#next));
    this.#open.set(this.#next, open);
    if (!this.#connection.isOpen) queueMicrotask(() => open.lost(noOwner()));
    return this.#next;
  }

  send(type: number, channel: number, value: object, body?: Uint8Array, more = false): void {
    sendValue(this.#connection, type, channel, value, body === undefined ? NO_PARTS : [body], more ? MORE : 0);
  }

  drained(): Promise<void> {
    return this.#connection.drained();
  }

  /** Whether all that was changed is here: an owner counts out who does not say so, and one that is not sure itself answers no PING. */
  get isSure(): boolean {
    return performance.now() - this.#sureAt < GATEWAY_ACK_MAX_MS;
  }

  /** Asks the owner often, and gives it up when nothing was heard of it for so long as it is told each time: one that vanishes closes nothing. */
  watch(silenceMaxMs: () => number = () => Number.POSITIVE_INFINITY): void {
    const stood = new Standstill(2 * LINK_WATCH_MS);
    this.#watch = setInterval(() => {
      const silentMs = performance.now() - this.#connection.lastHeard;
      const wasStopped = stood.happened(); // What came meanwhile is not read yet.
      if (silentMs > silenceMaxMs() && !wasStopped) this.#connection.destroy();
      else this.#ping();
    }, LINK_WATCH_MS);
  }

  close(): void {
    this.#connection.close();
  }

  /** Now: what waits fails at once. */
  destroy(): void {
    this.#connection.destroy();
  }

  #ping(): void {
    if (this.#pingedAt !== undefined) return;
    this.#pingedAt = performance.now();
    this.#connection.send(LINK_FRAME.PING, 0);
  }

  #answeredPing(): void {
    this.#sureAt = this.#pingedAt ?? this.#sureAt;
    this.#pingedAt = undefined;
  }

  #onFrame(frame: Frame): void {
    const { type, channel } = frame;
    if (type === LINK_FRAME.PING) this.#connection.send(LINK_FRAME.PONG, 0);
    else if (type === LINK_FRAME.PONG) this.#answeredPing();
    else if (type === LINK_FRAME.CHANGED) this.#changed(parseHead<Changed & { seq?: number }>(frame));
    else if (type === LINK_FRAME.CLOSE) this.onClose(parseHead<{ graceMs: number }>(frame).graceMs);
    // One that was over before this came is not there.
    else if (this.#open.get(channel)?.onFrame(frame)) this.#open.delete(channel);
  }

  #changed({ seq, ...change }: Changed & { seq?: number }): void {
    const dropped = this.#onChange.map((listener) => listener(change));
    if (seq === undefined) return;
    const acked = () => this.#connection.send(LINK_FRAME.ACKED, 0, { seq });
    // What was not known here could not be asked for: then nothing old is.
    if (dropped.some((each) => each instanceof Promise)) Promise.allSettled(dropped).then(acked, acked);
    else acked();
  }

  #lost(reason: string): void {
    clearInterval(this.#watch);
    this.onClosed(reason);
    for (const open of this.#open.values()) open.lost(noOwner());
    this.#open.clear();
  }
}

function noOwner(): SvcError {
  return new SvcError("SHUTTING_DOWN", "The process that took the call has lost the rest of the platform.", {
    help: "Try again in a moment; what was accepted before goes on.",
  });
}
