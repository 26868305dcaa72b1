/**
 * What workers print, kept on disk in a ring of two files per endpoint: lines of JSON
 * `{"at","worker","job","stream","text"}` in `<dir>/<endpoint>.ndjson`, older ones in `<endpoint>.1.ndjson`.
 * Lines of one turn are written together; a disk that cannot keep up loses lines, never the platform.
 */
import { mkdirSync } from "node:fs";
import { appendFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { LOG_FILE_MAX_BYTES, LOG_LINE_MAX_BYTES, LOG_PENDING_MAX_BYTES } from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";

export interface LoggedLine {
  readonly endpointId: string;
  readonly workerId: string;
  readonly jobId: string;
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

interface Pending {
  text: string;
  writing: boolean;
  /** Size of the current file; undefined until looked up. */
  bytes: number | undefined;
}

export class LogFiles {
  readonly #dir: string;
  readonly #clock: () => number;
  readonly #pending = new Map<string, Pending>();
  #listeners = new Set<(endpointId: string, lines: string) => void>();

  constructor(dir: string, clock: () => number) {
    this.#dir = dir;
    this.#clock = clock;
    mkdirSync(dir, { recursive: true });
  }

  append(line: LoggedLine): void {
    const at = this.#clock();
    const entries = line.text.split("\n").filter((text) => text !== "");
    const { workerId: worker, jobId: job, stream } = line;
    const added = entries
      .map((text) => `${JSON.stringify({ at, worker, job, stream, text: text.slice(0, LOG_LINE_MAX_BYTES) })}\n`)
      .join("");
    if (added === "") return;
    for (const listener of this.#listeners) listener(line.endpointId, added);
    const pending = getOrInsert(this.#pending, line.endpointId, () => ({ text: "", writing: false, bytes: undefined }));
    if (pending.text.length < LOG_PENDING_MAX_BYTES) pending.text += added;
    if (!pending.writing) void this.#write(line.endpointId, pending);
  }

  /** Newest last: the older file, then the current one. */
  files(endpointId: string): string[] {
    return [path.join(this.#dir, `${endpointId}.1.ndjson`), path.join(this.#dir, `${endpointId}.ndjson`)];
  }

  /** Lines as they come, until the returned function is called. */
  follow(listener: (endpointId: string, lines: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async forget(endpointId: string): Promise<void> {
    this.#pending.delete(endpointId);
    for (const file of this.files(endpointId)) await rm(file, { force: true });
  }

  async #write(endpointId: string, pending: Pending): Promise<void> {
    pending.writing = true;
    const [older, current] = this.files(endpointId) as [string, string];
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
        await appendFile(current, text, { mode: 0o600 });
        pending.bytes += Buffer.byteLength(text);
      }
    } catch {
      pending.text = ""; // A full disk must not fill the memory too.
    } finally {
      pending.writing = false;
    }
  }
}
