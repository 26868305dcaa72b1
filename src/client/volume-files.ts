/**
 * The files of a volume, over the platform's API. A file goes up in parts, each sent again when its connection breaks:
 *
 *   part at 0 ──▶ part at 8 MB ──▶ … ──last part──▶ it stands at its path, in one step
 *       └── given up or refused: what has arrived is removed
 */
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type ErrorCode, SvcError } from "../domain/errors.ts";
import {
  CLIENT_RETRY_PAUSE_MAX_MS,
  UPLOAD_IDLE_MAX_MS,
  UPLOAD_PATIENCE_MS,
  VOLUME_PART_BYTES,
} from "../domain/limits.ts";
import type { Volume } from "../domain/volume.ts";
import type { Platform } from "./answer-error.ts";
import { fetchText, receive, refusalOf, sendStream } from "./request.ts";

export interface VolumeEntry {
  readonly name: string;
  readonly kind: "file" | "folder" | "link" | "other";
  readonly sizeBytes: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
}

export interface PutOptions {
  readonly signal?: AbortSignal;
  /** Bytes that have arrived. */
  readonly onProgress?: (bytes: number) => void;
}

const PASSING: ReadonlySet<ErrorCode> = new Set(["PLATFORM_UNREACHABLE", "SLOW_REQUEST", "SHUTTING_DOWN"]);
/** A disk that has taken a part of the file takes the rest when it is back. */
const PASSING_LATER: ReadonlySet<ErrorCode> = new Set([...PASSING, "VOLUMES_AWAY"]);

export class VolumeFiles {
  readonly #platform: Platform;
  readonly #base: string;

  constructor(platform: Platform, { app, environment, name }: Volume) {
    this.#platform = platform;
    this.#base = `/volumes/${[app, environment, name].map(encodeURIComponent).join("/")}`;
  }

  /** What is there, then what is in it, by name. Throws NOT_FOUND. */
  async entries(path: readonly string[], signal?: AbortSignal): Promise<readonly [VolumeEntry, ...VolumeEntry[]]> {
    const url = this.#platform.url + this.#at("entries", path);
    const { status, text } = await fetchText(this.#platform, url, {
      method: "GET",
      signal,
      idleMs: UPLOAD_IDLE_MAX_MS,
    });
    if (status !== 200) throw refusalOf(this.#platform, status, text);
    const lines = text.split("\n").filter((line) => line !== "");
    const [own, ...inside] = lines.map((line) => JSON.parse(line) as VolumeEntry);
    if (own === undefined)
      throw new SvcError("INTERNAL", `${this.#platform.url} said nothing about the volume's files.`);
    return [own, ...inside.sort((a, b) => (a.name < b.name ? -1 : 1))];
  }

  /** The file's bytes, which fail when they are not whole. Throws NOT_FOUND, BAD_INPUT. */
  async read(
    path: readonly string[],
    signal?: AbortSignal,
  ): Promise<{ sizeBytes: number; bytes: AsyncIterable<Buffer> }> {
    const options = { method: "GET", signal, timeout: UPLOAD_IDLE_MAX_MS };
    const bytes = await receive(this.#platform, this.#at("files", path), options);
    return { sizeBytes: Number(bytes.headers["content-length"] ?? 0), bytes };
  }

  async put(path: readonly string[], source: AsyncIterable<Buffer>, options: PutOptions = {}): Promise<number> {
    const id = randomUUID();
    let offset = 0;
    try {
      for await (const [part, isLast] of inParts(source)) {
        await this.#send(path, id, offset, part, isLast, options.signal);
        offset += part.length;
        options.onProgress?.(offset);
      }
      return offset;
    } catch (error) {
      if (offset > 0 || options.signal?.aborted) await this.#delete(this.#at("uploads", [id])).catch(() => {});
      throw error;
    }
  }

  async remove(path: readonly string[], recursive: boolean): Promise<void> {
    await this.#delete(this.#at("files", path) + (recursive ? "?recursive=1" : ""));
  }

  async #send(
    path: readonly string[],
    id: string,
    offset: number,
    part: Buffer,
    isLast: boolean,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const givesUpAt = performance.now() + UPLOAD_PATIENCE_MS;
    const headers = { "content-length": part.length, "upload-offset": offset, "upload-complete": isLast ? "?1" : "?0" };
    for (;;) {
      try {
        signal?.throwIfAborted();
        const options = { method: "PUT", headers, timeout: UPLOAD_IDLE_MAX_MS, signal };
        const url = `${this.#at("files", path)}?upload=${id}`;
        const { status, text } = await sendStream(this.#platform, url, Readable.from([part]), options);
        if (status !== 200) throw refusalOf(this.#platform, status, text);
        return;
      } catch (error) {
        signal?.throwIfAborted();
        const passing = offset === 0 ? PASSING : PASSING_LATER;
        const passes = error instanceof SvcError && passing.has(error.code) && performance.now() < givesUpAt;
        if (!passes) throw error;
        await delay(CLIENT_RETRY_PAUSE_MAX_MS, undefined, { signal });
      }
    }
  }

  async #delete(path: string): Promise<void> {
    const { status, text } = await fetchText(this.#platform, this.#platform.url + path, { method: "DELETE" });
    if (status !== 200) throw refusalOf(this.#platform, status, text);
  }

  #at(what: string, path: readonly string[]): string {
    return [this.#base, what, ...path.map(encodeURIComponent)].join("/");
  }
}

/** At least one part, perhaps empty; the last one is known to be it. */
async function* inParts(source: AsyncIterable<Buffer>): AsyncGenerator<readonly [part: Buffer, isLast: boolean]> {
  let chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of source) {
    let rest = chunk;
    while (length + rest.length > VOLUME_PART_BYTES) {
      const fits = VOLUME_PART_BYTES - length;
      yield [Buffer.concat([...chunks, rest.subarray(0, fits)]), false];
      rest = rest.subarray(fits);
      chunks = [];
      length = 0;
    }
    chunks.push(rest);
    length += rest.length;
  }
  yield [Buffer.concat(chunks), true];
}
