/**
 * Unpacks a layer that somebody uploaded, below a new folder and nowhere else. Files and folders come first and links last, so
 * nothing is ever written through a link. A link may lead to what is inside, by folders alone, never by way of another link;
 * only its last step may be one, which keeps to the same rule. Hard links, devices and mode bits other than "executable" are
 * no part of a layer.
 */
import { createWriteStream } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import path from "node:path";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import tar, { type Header } from "tar-stream";
import { SvcError } from "../domain/errors.ts";
import {
  LAYER_ENTRIES_MAX,
  LAYER_RATIO_MAX,
  LAYER_UNPACKED_ANY_BYTES,
  LAYER_UNPACKED_MAX_BYTES,
} from "../domain/limits.ts";

export interface UnpackBounds {
  readonly bytesMax: number;
  readonly entriesMax: number;
}

/** What a layer of so many compressed bytes may become. */
export function unpackBounds(compressedBytes: number): UnpackBounds {
  const bytesMax = Math.min(LAYER_UNPACKED_MAX_BYTES, LAYER_UNPACKED_ANY_BYTES + LAYER_RATIO_MAX * compressedBytes);
  return { bytesMax, entriesMax: LAYER_ENTRIES_MAX };
}

/** `dir` is new and empty. Throws LAYER_CORRUPT, and leaves it half filled then. */
export async function unpackLayer(
  compressed: NodeJS.ReadableStream,
  dir: string,
  { bytesMax, entriesMax }: UnpackBounds,
): Promise<void> {
  // An entry whose archive breaks off before it is read is destroyed already, and a pipe from it would wait for ever.
  const over = new AbortController();
  const layer = new LayerWriter(dir, entriesMax, over.signal);
  const extract = tar.extract();
  const fed = pipeline(compressed, createGunzip(), atMost(bytesMax), extract).catch((error: unknown) => {
    over.abort(error);
    throw error;
  });
  const written = (async () => {
    for await (const entry of extract) {
      // A size that the reader cannot decode: it would wait for that entry's end for ever.
      if (!Number.isSafeInteger(entry.header.size)) throw unsafe(entry.header.name);
      await layer.add(entry.header, entry);
      entry.resume();
    }
    await layer.makeLinks();
  })();
  const [feeding, writing] = await Promise.allSettled([fed, written]);
  // Each ends the other; the reason is the one that is worded.
  const errors = [feeding, writing].flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : []));
  const told = errors.find((error) => error instanceof SvcError) ?? errors[0];
  if (told !== undefined) throw told;
}

class LayerWriter {
  readonly #dir: string;
  readonly #entriesMax: number;
  readonly #folders = new Set<string>([""]);
  readonly #files = new Set<string>();
  readonly #links = new Map<string, string>();

  readonly #over: AbortSignal;

  constructor(dir: string, entriesMax: number, over: AbortSignal) {
    this.#over = over;
    this.#dir = dir;
    this.#entriesMax = entriesMax;
  }

  async add({ name, type, mode, linkname }: Header, content: AsyncIterable<unknown>): Promise<void> {
    const place = placeOf(name);
    if (type === "directory") return this.#folder(place, name);
    if (this.#taken(place)) throw unsafe(name);
    await this.#folder(parentOf(place), name);
    if (type === "symlink") this.#links.set(place, linkname ?? "");
    else if (type === "file") {
      this.#files.add(place);
      const fileMode = (mode ?? 0) & 0o111 ? 0o755 : 0o644;
      // "wx": it never follows a link or replaces anything.
      const file = createWriteStream(path.join(this.#dir, place), { flags: "wx", mode: fileMode });
      await pipeline(content, file, { signal: this.#over });
    } else throw unsafe(name);
    this.#count();
  }

  async makeLinks(): Promise<void> {
    for (const [place, target] of this.#links) {
      if (!this.#staysInside(place, target)) throw unsafe(place);
      await symlink(target, path.join(this.#dir, place));
    }
  }

  async #folder(place: string, name: string): Promise<void> {
    if (this.#folders.has(place)) return;
    if (this.#taken(place)) throw unsafe(name);
    await this.#folder(parentOf(place), name);
    await mkdir(path.join(this.#dir, place));
    this.#folders.add(place);
    this.#count();
  }

  #taken(place: string): boolean {
    return this.#files.has(place) || this.#links.has(place) || this.#folders.has(place);
  }

  #count(): void {
    if (this.#files.size + this.#links.size + this.#folders.size > this.#entriesMax) {
      throw new SvcError("LAYER_CORRUPT", `The layer has more than ${this.#entriesMax} files and folders.`, {
        help: "Use --exclude, or keep many small files in an archive.",
      });
    }
  }

  /** Step by step, as the kernel goes: each step but the last is no link, and none leaves the layer. */
  #staysInside(link: string, target: string): boolean {
    if (target === "" || target.includes("\0") || path.posix.isAbsolute(target)) return false;
    let at = parentOf(link);
    const steps = target.split("/").filter((step) => step !== "" && step !== ".");
    for (const [index, step] of steps.entries()) {
      if (step === "..") {
        if (at === "") return false;
        at = parentOf(at);
      } else at = at === "" ? step : `${at}/${step}`;
      if (index < steps.length - 1 && this.#links.has(at)) return false;
    }
    return at !== "" || steps.length > 0;
  }
}

/** "./src/a.py" → "src/a.py", "" for the layer's own folder. */
function placeOf(name: string): string {
  const steps = name.split("/").filter((step) => step !== "" && step !== ".");
  if (name.startsWith("/") || name.includes("\0") || steps.includes("..")) throw unsafe(name);
  return steps.join("/");
}

function parentOf(place: string): string {
  return place.slice(0, Math.max(0, place.lastIndexOf("/")));
}

/** A few bytes can be packed to become gigabytes. */
function atMost(bytesMax: number): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= bytesMax) return done(null, chunk);
      done(
        new SvcError("LAYER_CORRUPT", `The layer unpacks to more than ${bytesMax} bytes.`, {
          help: "Use --exclude, or fetch large data when a worker starts.",
        }),
      );
    },
  });
}

function unsafe(name: string): SvcError {
  const shown = JSON.stringify(name.slice(0, 200));
  return new SvcError("LAYER_CORRUPT", `The layer has an entry that may not be unpacked: ${shown}.`);
}
