/**
 * What workers print, kept on disk in a ring of two files per endpoint: lines of JSON
 * `{"at","worker","job","stream","text"}` in `<dir>/<endpoint>.ndjson`, older ones in `<endpoint>.1.ndjson`.
 * Lines of one turn are written together; a disk that cannot keep up loses lines, never the platform.
 */
import { mkdirSync } from "node:fs";
import { appendFile, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { LOG_FILE_MAX_BYTES, LOG_LINE_MAX_BYTES, LOG_PENDING_MAX_BYTES } from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { LoggedLine, LogStore } from "./log-store.ts";

interface Pending {
  text: string;
  /** Undefined while nothing is written. */
  written: Promise<void> | undefined;
  /** Size of the current file; undefined until looked up. */
  bytes: number | undefined;
  /** The last line may have no end. */
  torn: boolean;
}

export class LogFiles implements LogStore {
  readonly #dir: string;
  readonly #clock: () => number;
  readonly #mask: (endpointId: string, text: string) => string;
  readonly #pending = new Map<string, Pending>();
  readonly #followers = new Set<{ endpointId: string; listener: (lines: string[]) => void }>();

  /** `mask` takes out of a text what must not be written. */
  constructor(
    dir: string,
    clock: () => number,
    mask: (endpointId: string, text: string) => string = (_endpointId, text) => text,
  ) {
    this.#dir = dir;
    this.#mask = mask;
    this.#clock = clock;
    mkdirSync(dir, { recursive: true });
  }

  append(line: LoggedLine): void {
    const at = this.#clock();
    const entries = this.#mask(line.endpointId, line.text)
      .split("\n")
      .filter((text) => text !== "");
    const { workerId: worker, jobId: job, stream } = line;
    const lines = entries.map((text) => {
      return `${JSON.stringify({ at, worker, job, stream, text: text.slice(0, LOG_LINE_MAX_BYTES) })}\n`;
    });
    if (lines.length === 0) return;
    for (const { endpointId, listener } of this.#followers) if (endpointId === line.endpointId) listener(lines);
    const pending = getOrInsert(this.#pending, line.endpointId, () => ({
      text: "",
      written: undefined,
      bytes: undefined,
      torn: true,
    }));
    if (pending.text.length < LOG_PENDING_MAX_BYTES) pending.text += lines.join("");
    pending.written ??= this.#write(line.endpointId, pending);
  }

  /** Resolves when all lines so far are on the disk. */
  async idle(): Promise<void> {
    await Promise.all([...this.#pending.values()].map((pending) => pending.written));
  }

  async read(endpointId: string): Promise<string[]> {
    const texts = await Promise.all(this.#files(endpointId).map((file) => readFile(file, "utf8").catch(() => "")));
    return (texts.join("").match(/.+\n/g) ?? []).filter((line) => line.endsWith('"}\n'));
  }

  follow(endpointId: string, listener: (lines: string[]) => void): () => void {
    const entry = { endpointId, listener };
    this.#followers.add(entry);
    return () => this.#followers.delete(entry);
  }

  /** Endpoints that have a log. */
  async endpointIds(): Promise<string[]> {
    const names = (await readdir(this.#dir)).map((name) => /^(.+?)(\.1)?\.ndjson$/.exec(name)?.[1]);
    return [...new Set(names.filter((id) => id !== undefined))];
  }

  async forget(endpointId: string): Promise<void> {
    this.#pending.delete(endpointId);
    for (const file of this.#files(endpointId)) await rm(file, { force: true });
  }

  /** The older file, then the current one. */
  #files(endpointId: string): [string, string] {
    return [path.join(this.#dir, `${endpointId}.1.ndjson`), path.join(this.#dir, `${endpointId}.ndjson`)];
  }

  async #write(endpointId: string, pending: Pending): Promise<void> {
    const [older, current] = this.#files(endpointId);
    try {
      while (pending.text !== "") {
        const text = pending.text;
        pending.text = "";
        pending.bytes ??= await stat(current).then(
          (found) => found.size,
          () => 0,
        );
        if (pending.bytes > LOG_FILE_MAX_BYTES) {
          await rename(current, older);
          pending.bytes = 0;
        }
        await appendFile(current, pending.torn ? `\n${text}` : text, { mode: 0o600 });
        pending.torn = false;
        pending.bytes += Buffer.byteLength(text);
      }
    } catch {
      pending.text = ""; // A full disk must not fill the memory too.
      pending.torn = true; // A part of it may have been written.
    } finally {
      pending.written = undefined;
    }
  }
}
