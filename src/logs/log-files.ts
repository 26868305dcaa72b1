/**
 * What workers print, kept on disk in a ring of two files per endpoint: lines of JSON
 * `{"at","worker","job","stream","level","text"}` in `<dir>/<endpoint>.ndjson`, older ones in `<endpoint>.1.ndjson`.
 * Lines of one turn are written together. When the disk does not keep up, those who print are asked to wait; lines that
 * come all the same, and those that cannot be written, are left out, and a line says how many.
 */
import { mkdirSync } from "node:fs";
import { appendFile, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { LOG_FILE_MAX_BYTES, LOG_PENDING_LAST_BYTES, LOG_PENDING_MAX_BYTES } from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { ifThere } from "../lib/if-there.ts";
import { LogLines, type Mask, noteLine, wholeLines } from "./log-lines.ts";
import type { LoggedLine, LogListener, LogPiece, LogStore } from "./log-store.ts";

interface Pending {
  text: string;
  /** Those in `text`, with those that a line in it says are left out. */
  lines: number;
  /** Said in no line yet. */
  leftOut: number;
  /** Undefined while nothing is written. */
  written: Promise<void> | undefined;
  /** The part of it that is on its way to the disk. */
  turn: Promise<void>;
  /** Size of the current file; undefined until looked up. */
  bytes: number | undefined;
  /** The last line may have no end. */
  torn: boolean;
}

export class LogFiles implements LogStore {
  readonly #dir: string;
  readonly #clock: () => number;
  readonly #lines: LogLines;
  readonly #pending = new Map<string, Pending>();

  constructor(dir: string, clock: () => number, mask?: Mask) {
    this.#dir = dir;
    this.#lines = new LogLines(clock, mask);
    this.#clock = clock;
    mkdirSync(dir, { recursive: true });
  }

  append(line: LoggedLine): Promise<void> | undefined {
    const { lines } = this.#lines.take(line);
    if (lines.length === 0) return undefined;
    const pending = getOrInsert(this.#pending, line.endpointId, () => ({
      text: "",
      lines: 0,
      leftOut: 0,
      written: undefined,
      turn: Promise.resolve(),
      bytes: undefined,
      torn: true,
    }));
    if (pending.text.length < LOG_PENDING_LAST_BYTES) {
      pending.text += this.#note(pending) + lines.join("");
      pending.lines += lines.length;
    } else pending.leftOut += lines.length;
    pending.written ??= this.#write(line.endpointId, pending);
    return pending.text.length > LOG_PENDING_MAX_BYTES ? pending.written : undefined;
  }

  /** Resolves when all lines so far are on the disk. */
  async idle(): Promise<void> {
    await Promise.all([...this.#pending.values()].map((pending) => pending.written));
  }

  /** A log is one piece: both files are read at once, so that none is renamed meanwhile. */
  async *read(endpointIds: readonly string[]): AsyncGenerator<LogPiece> {
    for (const endpointId of endpointIds) {
      yield { endpointId, newestAt: Number.POSITIVE_INFINITY, lines: await this.#linesOf(endpointId) };
    }
  }

  async #linesOf(endpointId: string): Promise<string[]> {
    // What is on its way, and what waits behind it; not what comes meanwhile, which may be without end.
    for (let turns = 0; turns < 2; turns++) await this.#pending.get(endpointId)?.turn;
    const texts = await Promise.all(this.#files(endpointId).map((file) => readFile(file, "utf8").catch(() => "")));
    return wholeLines(texts.join(""));
  }

  follow(endpointIds: readonly string[], listener: LogListener): () => void {
    return this.#lines.follow(endpointIds, listener);
  }

  /** Endpoints that have a log. */
  async endpointIds(): Promise<string[]> {
    const names = ((await ifThere(readdir(this.#dir))) ?? []).map((name) => /^(.+?)(\.1)?\.ndjson$/.exec(name)?.[1]);
    return [...new Set(names.filter((id) => id !== undefined))];
  }

  async forget(endpointId: string): Promise<void> {
    const pending = this.#pending.get(endpointId);
    this.#pending.delete(endpointId);
    if (pending !== undefined) Object.assign(pending, { text: "", lines: 0, leftOut: 0 });
    await pending?.written; // It would make the file again.
    for (const file of this.#files(endpointId)) await rm(file, { force: true });
  }

  /** The older file, then the current one. */
  #files(endpointId: string): [string, string] {
    return [path.join(this.#dir, `${endpointId}.1.ndjson`), path.join(this.#dir, `${endpointId}.ndjson`)];
  }

  /** The line that says what is missing here. */
  #note(pending: Pending): string {
    const { leftOut } = pending;
    if (leftOut === 0) return "";
    pending.leftOut = 0;
    pending.lines += leftOut;
    return noteLine(
      this.#clock(),
      `${leftOut} lines were left out here: the platform's disk did not take them in time`,
    );
  }

  async #write(endpointId: string, pending: Pending): Promise<void> {
    while (pending.text !== "" || pending.leftOut > 0) {
      const text = pending.text + this.#note(pending);
      const lines = pending.lines;
      pending.text = "";
      pending.lines = 0;
      let isWritten = true;
      pending.turn = this.#append(endpointId, pending, text).catch(() => {
        isWritten = false;
        pending.bytes = undefined; // Others may have taken the file away.
      });
      await pending.turn;
      if (isWritten) continue;
      // A full disk must not fill the memory too.
      pending.leftOut += lines + pending.lines;
      pending.text = "";
      pending.lines = 0;
      pending.torn = true; // A part of it may have been written.
      break;
    }
    pending.written = undefined;
  }

  async #append(endpointId: string, pending: Pending, text: string): Promise<void> {
    const [older, current] = this.#files(endpointId);
    pending.bytes ??= await stat(current).then(
      (found) => found.size,
      () => 0,
    );
    if (pending.bytes > LOG_FILE_MAX_BYTES) {
      await rename(current, older);
      pending.bytes = 0;
    }
    const append = () => appendFile(current, pending.torn ? `\n${text}` : text, { mode: 0o600 });
    await append().catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      await mkdir(this.#dir, { recursive: true }); // Somebody removed it.
      await append();
    });
    pending.torn = false;
    pending.bytes += Buffer.byteLength(text);
  }
}
