/**
 * What workers print, in a bucket, with an index of it in PostgreSQL.
 *
 *   line ──▶ memory (held-chunks.ts) ──after LOG_CHUNK_WAIT_MS, or full──▶ object ──▶ its row
 *   forgotten, too old, or too much ──▶ row gone ──▶ object gone;  an object without a row goes with the sweep
 *
 * An object is there before its row and after it, so a row leads to one. Whoever reads gets what is in memory first.
 */
import type { SvcError } from "../domain/errors.ts";
import {
  LOG_CHUNK_WAIT_MS,
  LOG_CHUNKS_AHEAD,
  LOG_CHUNKS_PAGE,
  LOG_HELD_SHOWN_MAX_BYTES,
  LOG_KEPT_MS,
  LOG_ORPHAN_MS,
} from "../domain/limits.ts";
import type { ChunkIndex, ChunkRow } from "./chunk-index.ts";
import type { ChunkName, ChunkObjects } from "./chunk-objects.ts";
import { ChunkWriter } from "./chunk-writer.ts";
import { HeldChunks } from "./held-chunks.ts";
import { chunksOfFiles } from "./log-file-chunks.ts";
import type { LogFiles } from "./log-files.ts";
import { LogLines, type Mask, noteLine, wholeLines } from "./log-lines.ts";
import type { ChunkText, LoggedLine, LogListener, LogPiece, LogStore, LogTimes } from "./log-store.ts";

export interface BucketLogsOptions {
  readonly objects: ChunkObjects;
  readonly index: ChunkIndex;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  readonly onError: (name: string, error: unknown) => void;
  readonly mask?: Mask;
  /** What other platforms hold of them that is not in the bucket yet. */
  readonly heldElsewhere?: (endpointIds: readonly string[], between: LogTimes) => Promise<readonly ChunkText[]>;
  /** Logs of before there was a bucket: the sweep moves them there. */
  readonly files?: LogFiles;
  readonly waitMs?: number;
  /** How long lines are kept. */
  readonly keptMs?: number;
}

export class BucketLogs implements LogStore {
  readonly #options: BucketLogsOptions;
  readonly #lines: LogLines;
  readonly #held: HeldChunks;
  readonly #writer: ChunkWriter;

  constructor(options: BucketLogsOptions) {
    this.#options = options;
    this.#lines = new LogLines(options.clock, options.mask);
    this.#held = new HeldChunks(options.now);
    this.#writer = new ChunkWriter({ ...options, held: this.#held, waitMs: options.waitMs ?? LOG_CHUNK_WAIT_MS });
    this.#writer.start();
  }

  append(line: LoggedLine): Promise<void> | undefined {
    const { at, lines } = this.#lines.take(line);
    if (lines.length === 0) return undefined;
    if (this.#held.add(line.endpointId, at, lines)) this.#writer.nudge();
    return this.#writer.wait(line.endpointId);
  }

  follow(endpointIds: readonly string[], listener: LogListener): () => void {
    return this.#lines.follow(endpointIds, listener);
  }

  async *read(endpointIds: readonly string[], between: LogTimes = {}): AsyncGenerator<LogPiece> {
    // First those of others: what goes to the bucket meanwhile is left out there.
    const elsewhere = (await this.#options.heldElsewhere?.(endpointIds, between)) ?? [];
    const here = endpointIds.flatMap((id) => this.#held.of(id).reverse());
    const held = [...here, ...elsewhere].sort((a, b) => b.lastAt - a.lastAt);
    // What goes to the bucket from here on is in these.
    const isHeld = new Set(held.map(({ id }) => id));
    const waiting = held.filter((chunk) => mayBeBetween(chunk, between));
    for await (const piece of this.#inBucket(endpointIds, between, isHeld)) {
      while (waiting[0] !== undefined && waiting[0].lastAt >= piece.newestAt) yield pieceOf(waiting.shift()!);
      yield piece;
    }
    for (const chunk of waiting) yield pieceOf(chunk);
  }

  /** For another platform: what is not in the bucket yet, the newest first, and of more than LOG_HELD_SHOWN_MAX_BYTES how much it is. */
  unsaved(endpointIds: readonly string[], between: LogTimes): ChunkText[] {
    const unsaved = endpointIds.flatMap((id) => this.#held.unsavedOf(id)).filter((one) => mayBeBetween(one, between));
    let bytes = 0;
    return unsaved
      .sort((a, b) => b.lastAt - a.lastAt)
      .map((chunk) => {
        bytes += Buffer.byteLength(chunk.text);
        if (bytes <= LOG_HELD_SHOWN_MAX_BYTES) return chunk;
        const words = `${chunk.lines} lines are not shown here: they are on their way to the bucket`;
        return { ...chunk, lines: 1, text: noteLine(chunk.lastAt, words) };
      });
  }

  async endpointIds(): Promise<string[]> {
    return [...new Set([...this.#held.endpointIds(), ...(await this.#options.index.endpointIds())])];
  }

  async forget(endpointId: string): Promise<void> {
    this.#held.forget(endpointId);
    await this.#options.files?.forget(endpointId);
    await this.#writer.putsEnded(); // A row on its way would be left.
    // Nobody is to read them, wherever the bucket is.
    await this.#remove(() => this.#options.index.forget(endpointId), true);
  }

  /** When all that has come is in the bucket. Throws what keeps it from getting there. */
  async idle(): Promise<void> {
    await this.#writer.write(0);
  }

  /** Moves logs from files, deletes what is too old, and objects that no row names. */
  async sweep(): Promise<void> {
    const { index, objects, clock, files, keptMs = LOG_KEPT_MS } = this.#options;
    if (files !== undefined) {
      for (const endpointId of await files.endpointIds()) {
        for await (const chunk of chunksOfFiles(files, endpointId)) await this.#writer.put(chunk);
        await files.forget(endpointId);
      }
    }
    await this.#remove(() => index.expire(clock() - keptMs));
    const names: ChunkName[] = [];
    for await (const name of objects.list(clock() - LOG_ORPHAN_MS)) {
      names.push(name);
      if (names.length === LOG_CHUNKS_PAGE) await this.#deleteOrphans(names.splice(0));
    }
    await this.#deleteOrphans(names);
  }

  /** Writes what it can in LOG_CLOSE_MAX_MS; resolves how many lines are lost. */
  async close(): Promise<number> {
    await this.#writer.close();
    return this.#held.unsaved();
  }

  /**
   * Rows with their objects, some at a time. A bucket that does not delete ends it, unless `goesOn`: so what is left without a row, for
   * the next sweep to find, is one step's.
   */
  async #remove(some: () => Promise<ChunkName[]>, goesOn = false): Promise<void> {
    for (let isMore = true; isMore; ) {
      const names = await some();
      await this.#writer.delete(names).catch((error: unknown) => {
        if (!goesOn) throw error;
      });
      isMore = names.length === LOG_CHUNKS_PAGE;
    }
  }

  async #deleteOrphans(names: readonly ChunkName[]): Promise<void> {
    if (names.length === 0) return;
    const known = await this.#options.index.known(names.map(({ id }) => id));
    await this.#writer.delete(names.filter(({ id }) => !known.has(id)));
  }

  /** Those that are not held. Some are fetched ahead, more of them the further back it goes. */
  async *#inBucket(
    endpointIds: readonly string[],
    between: LogTimes,
    isHeld: ReadonlySet<string>,
  ): AsyncGenerator<LogPiece> {
    const { index, objects, clock } = this.#options;
    const rows = this.#rows(index, endpointIds, between, isHeld);
    const ahead: { readonly row: ChunkRow; readonly text: Promise<string | undefined> }[] = [];
    let at = clock();
    let isLast = false;
    try {
      for (let pieces = 1; ; pieces++) {
        while (!isLast && ahead.length < Math.min(pieces, LOG_CHUNKS_AHEAD)) {
          const { value: row } = await rows.next();
          if (row === undefined) isLast = true;
          else {
            const text = objects.text(row);
            text.catch(() => {}); // It is awaited in its turn, unless nobody wants it any more.
            ahead.push({ row, text });
          }
        }
        const next = ahead.shift();
        if (next === undefined) return;
        const { endpointId, lastAt, lines } = next.row;
        at = lastAt;
        const text = await next.text;
        if (text !== undefined) yield { endpointId, newestAt: lastAt, lines: wholeLines(text) };
        else yield noticeOf(endpointId, at, at, `${lines} lines are missing here: the bucket does not have them`);
      }
    } catch (error) {
      // The oldest of all, whatever is held.
      const text = `older lines cannot be read now: ${(error as SvcError).message}`;
      yield noticeOf(endpointIds[0] ?? "", 0, at, text);
    }
  }

  async *#rows(
    index: ChunkIndex,
    endpointIds: readonly string[],
    between: LogTimes,
    isHeld: ReadonlySet<string>,
  ): AsyncGenerator<ChunkRow, undefined> {
    let after: ChunkRow | undefined;
    do {
      const page = endpointIds.length === 0 ? [] : await index.newest(endpointIds, between, after);
      after = page.length === LOG_CHUNKS_PAGE ? page.at(-1) : undefined;
      for (const row of page) if (!isHeld.has(row.id)) yield row;
    } while (after !== undefined);
    return undefined;
  }
}

function mayBeBetween({ firstAt, lastAt }: ChunkText, { since, until }: LogTimes): boolean {
  return lastAt >= (since ?? 0) && firstAt <= (until ?? Number.POSITIVE_INFINITY);
}

function pieceOf({ endpointId, lastAt, text }: ChunkText): LogPiece {
  return { endpointId, newestAt: lastAt, lines: wholeLines(text) };
}

function noticeOf(endpointId: string, newestAt: number, at: number, text: string): LogPiece {
  return { endpointId, newestAt, lines: [noteLine(at, text)], isNotice: true };
}
