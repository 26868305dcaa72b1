/**
 * The newest lines of logs that lie in a bucket, in memory: in chunks of which each becomes an object. The last chunk of an endpoint
 * grows, and its object is written again with all of it, until it is full.
 *
 *   line ──▶ growing ──LOG_CHUNK_MAX_BYTES──▶ full ──written──▶ let go
 *               └──written──▶ (as in the bucket) ──next line──▶ growing · idle, or room is needed ──▶ let go
 *
 * What the bucket does not take in time is left out from the oldest on, and the chunk behind it says how many lines.
 */
import { randomBytes } from "node:crypto";
import {
  LOG_CHUNK_IDLE_MS,
  LOG_CHUNK_MAX_BYTES,
  LOG_CHUNK_WRITES_MAX,
  LOG_HELD_ALL_MAX_BYTES,
  LOG_HELD_MAX_BYTES,
} from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { noteLine } from "./log-lines.ts";
import type { ChunkText } from "./log-store.ts";

class Chunk {
  readonly id: string;
  readonly endpointId: string;
  firstAt: number;
  lastAt: number;
  text = "";
  bytes = 0;
  lines = 0;
  /** Lines before it that are left out. */
  leftOut = 0;
  /** What of it is in the bucket. */
  stored = { lines: 0, leftOut: 0 };
  writes = 0;
  /** By the monotonic clock: when the first line came that is not in the bucket, and when the last one came. */
  changedAt: number;
  addedAt: number;
  /** On its way to the bucket. */
  isBusy = false;
  /** Its endpoint was forgotten. */
  isGone = false;

  constructor(id: string, endpointId: string, at: number, now: number) {
    this.id = id;
    this.endpointId = endpointId;
    this.firstAt = at;
    this.lastAt = at;
    this.changedAt = now;
    this.addedAt = now;
  }

  get isStored(): boolean {
    return this.stored.lines === this.lines && this.stored.leftOut === this.leftOut;
  }

  add(at: number, line: string, bytes: number, now: number): void {
    if (this.isStored) this.changedAt = now;
    this.addedAt = now;
    this.text += line;
    this.bytes += bytes;
    this.lines += 1;
    this.firstAt = Math.min(this.firstAt, at);
    this.lastAt = Math.max(this.lastAt, at);
  }

  asText(): ChunkText {
    const { id, endpointId, firstAt, lastAt, leftOut } = this;
    const words = `${leftOut} lines were left out here: the bucket did not take them in time`;
    const note = leftOut === 0 ? "" : noteLine(firstAt, words);
    return { id, endpointId, firstAt, lastAt, lines: this.lines + (note === "" ? 0 : 1), text: note + this.text };
  }
}

/** One on its way to the bucket; call one of both when that has ended. */
export interface TakenChunk extends ChunkText {
  /** Its endpoint has been forgotten meanwhile. */
  isGone(): boolean;
  /** It is there. Resolves whether it was for the first time. */
  stored(): boolean;
  failed(): void;
}

interface OfEndpoint {
  /** Oldest first. */
  readonly chunks: Chunk[];
  bytes: number;
}

export class HeldChunks {
  readonly #now: () => number;
  readonly #endpoints = new Map<string, OfEndpoint>();
  #bytes = 0;
  #begun = 0;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Text of all, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  bytesOf(endpointId: string): number {
    return this.#endpoints.get(endpointId)?.bytes ?? 0;
  }

  /** Whether a chunk became full. */
  add(endpointId: string, at: number, lines: readonly string[]): boolean {
    const now = this.#now();
    const held = getOrInsert(this.#endpoints, endpointId, () => ({ chunks: [], bytes: 0 }));
    let isFull = false;
    for (const line of lines) {
      const bytes = Buffer.byteLength(line);
      let chunk = held.chunks.at(-1);
      if (chunk === undefined || chunk.bytes + bytes > LOG_CHUNK_MAX_BYTES || chunk.writes >= LOG_CHUNK_WRITES_MAX) {
        isFull ||= chunk !== undefined;
        chunk = this.#begin(held, endpointId, at);
      }
      chunk.add(at, line, bytes, now);
      held.bytes += bytes;
      this.#bytes += bytes;
      while (held.bytes > LOG_HELD_MAX_BYTES && this.#leaveOut(held)) {}
    }
    while (this.#bytes > LOG_HELD_ALL_MAX_BYTES && this.#makeRoom()) {}
    return isFull;
  }

  /**
   * At most `max` that are not in the bucket: full ones, and those that changed before `before` (of the clock). Whose turn it was
   * comes last the next time.
   */
  take(before: number, max: number): TakenChunk[] {
    const taken: TakenChunk[] = [];
    for (const [endpointId, held] of [...this.#endpoints]) {
      if (taken.length >= max) break;
      const isDue = (chunk: Chunk) => chunk !== held.chunks.at(-1) || chunk.changedAt <= before;
      const due = held.chunks.find((chunk) => !chunk.isStored && !chunk.isBusy && isDue(chunk));
      if (due === undefined) continue;
      taken.push(this.#taken(held, due));
      this.#endpoints.delete(endpointId);
      this.#endpoints.set(endpointId, held);
    }
    return taken;
  }

  /** Lines that are in memory alone. */
  unsaved(): number {
    let lines = 0;
    for (const { chunks } of this.#endpoints.values())
      for (const chunk of chunks) lines += chunk.lines - chunk.stored.lines;
    return lines;
  }

  /** What is held of an endpoint, oldest first. */
  of(endpointId: string): ChunkText[] {
    return (this.#endpoints.get(endpointId)?.chunks ?? []).map((chunk) => chunk.asText());
  }

  /** Of these, those that are not in the bucket as they are. */
  unsavedOf(endpointId: string): ChunkText[] {
    const held = this.#endpoints.get(endpointId)?.chunks ?? [];
    return held.filter(({ isStored }) => !isStored).map((chunk) => chunk.asText());
  }

  endpointIds(): string[] {
    return [...this.#endpoints.keys()];
  }

  forget(endpointId: string): void {
    const held = this.#endpoints.get(endpointId);
    if (held === undefined) return;
    for (const chunk of held.chunks) chunk.isGone = true;
    this.#bytes -= held.bytes;
    this.#endpoints.delete(endpointId);
  }

  /** Lets go what is in the bucket and was not added to for a while. */
  letGo(): void {
    const before = this.#now() - LOG_CHUNK_IDLE_MS;
    for (const held of this.#endpoints.values()) {
      for (const chunk of [...held.chunks])
        if (chunk.isStored && !chunk.isBusy && chunk.addedAt <= before) this.#remove(held, chunk);
    }
  }

  /** Ids are in the order in which chunks begin, also of those that begin at once. */
  #begin(held: OfEndpoint, endpointId: string, at: number): Chunk {
    const order = [at.toString(16).padStart(12, "0"), (this.#begun++).toString(16).padStart(8, "0")];
    const chunk = new Chunk(`${order.join("-")}-${randomBytes(6).toString("hex")}`, endpointId, at, this.#now());
    held.chunks.push(chunk);
    return chunk;
  }

  #taken(held: OfEndpoint, chunk: Chunk): TakenChunk {
    chunk.isBusy = true;
    const takenAt = this.#now();
    const { lines, leftOut } = chunk;
    return {
      ...chunk.asText(),
      isGone: () => chunk.isGone,
      stored: () => {
        chunk.isBusy = false;
        chunk.stored = { lines, leftOut };
        chunk.changedAt = takenAt;
        chunk.writes += 1;
        if (chunk !== held.chunks.at(-1) && chunk.isStored) this.#remove(held, chunk);
        return chunk.writes === 1;
      },
      failed: () => {
        chunk.isBusy = false;
      },
    };
  }

  /** For one endpoint that has too much: of its oldest chunk that is not on its way. */
  #leaveOut(held: OfEndpoint): boolean {
    const i = held.chunks.findIndex(({ isBusy }) => !isBusy);
    const chunk = held.chunks[i];
    if (chunk === undefined) return false;
    const lost = chunk.lines - chunk.stored.lines + (chunk.leftOut - chunk.stored.leftOut);
    if (lost > 0) {
      // The newest of all is replaced by one that is empty.
      const next = held.chunks[i + 1] ?? this.#begin(held, chunk.endpointId, chunk.lastAt);
      if (next.isStored) next.changedAt = this.#now();
      next.leftOut += lost;
    }
    this.#remove(held, chunk);
    return true;
  }

  /** For all together: first what is in the bucket too, then of the endpoint that has most. */
  #makeRoom(): boolean {
    for (const held of this.#endpoints.values()) {
      const stored = held.chunks.find((chunk) => chunk.isStored && !chunk.isBusy);
      if (stored === undefined) continue;
      this.#remove(held, stored);
      return true;
    }
    const most = [...this.#endpoints.values()].filter(({ chunks }) => chunks.some(({ isBusy }) => !isBusy));
    if (most.length === 0) return false;
    const largest = most.reduce((a, b) => (b.bytes > a.bytes ? b : a));
    return largest.bytes > 0 && this.#leaveOut(largest);
  }

  #remove(held: OfEndpoint, chunk: Chunk): void {
    const i = held.chunks.indexOf(chunk);
    if (i < 0) return;
    held.chunks.splice(i, 1);
    if (chunk.isGone) return;
    held.bytes -= chunk.bytes;
    this.#bytes -= chunk.bytes;
    if (held.chunks.length === 0) this.#endpoints.delete(chunk.endpointId);
  }
}
