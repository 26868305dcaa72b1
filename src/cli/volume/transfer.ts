/** Files on their way to and from a volume, some at a time, with what is done of all. */
import { createReadStream } from "node:fs";
import path from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { VolumeEntry, VolumeFiles } from "../../client/volume-files.ts";
import { SvcError } from "../../domain/errors.ts";
import { volumePathProblems } from "../../domain/volume.ts";
import type { CliContext } from "../context.ts";
import { formatSize } from "../format.ts";
import { type LocalFiles, localTarget, writeLocal } from "./local-files.ts";

const AT_ONCE = 4;

export interface Transferred {
  readonly files: number;
  readonly bytes: number;
  readonly skipped: readonly string[];
}

type Path = readonly string[];
type Tell = (bytes: number) => void;

/** Ctrl+C ends `work` first, which clears up. */
export async function interruptible<T>(context: CliContext, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  const release = context.interrupt.claim((again) => (again ? context.interrupt.end() : abort.abort()));
  try {
    return await work(abort.signal);
  } catch (error) {
    if (abort.signal.aborted) context.interrupt.end();
    throw error;
  } finally {
    release();
  }
}

/** `target`: the file's path in the volume, or that of the folder. */
export function upload(context: CliContext, files: VolumeFiles, local: LocalFiles, target: Path): Promise<Transferred> {
  const totalBytes = local.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return withProgress(context, "Uploading", totalBytes, async (tell, signal) => {
    await someAtATime(local.files, async ({ file, below }) => {
      let arrived = 0;
      await files.put([...target, ...below], createReadStream(file, { highWaterMark: 1 << 20 }), {
        signal,
        onProgress(bytes) {
          tell(bytes - arrived);
          arrived = bytes;
        },
      });
    });
    return { files: local.files.length, skipped: local.skipped };
  });
}

export function uploadStream(context: CliContext, files: VolumeFiles, source: Readable, target: Path) {
  return withProgress(context, "Uploading", undefined, async (tell, signal) => {
    signal.addEventListener("abort", () => source.destroy(new Error("interrupted")));
    let arrived = 0;
    const onProgress = (bytes: number) => {
      tell(bytes - arrived);
      arrived = bytes;
    };
    await files.put(target, source, { signal, onProgress });
    return { files: 1, skipped: [] };
  });
}

/** A file, or a folder with all in it but links. Resolves where it is, too. */
export async function download(
  context: CliContext,
  files: VolumeFiles,
  from: Path,
  local: string,
  force: boolean,
): Promise<Transferred & { readonly target: string }> {
  return interruptible(context, async (signal) => {
    const [own, ...inside] = await files.entries(from, signal);
    const target = await localTarget(path.resolve(context.cwd, local), own.name, own.kind === "folder", force);
    const found: { from: Path; to: string; sizeBytes: number }[] = [];
    const skipped: string[] = [];
    const take = async (entry: VolumeEntry, at: Path, to: string, entries?: readonly VolumeEntry[]): Promise<void> => {
      if (entry.kind === "file") found.push({ from: at, to, sizeBytes: entry.sizeBytes });
      else if (entry.kind !== "folder") skipped.push(at.join("/"));
      else {
        for (const one of entries ?? (await files.entries(at, signal)).slice(1)) {
          // It comes from a platform, and becomes a path here.
          if (volumePathProblems([one.name]).length > 0)
            throw new SvcError("INTERNAL", "The platform names an impossible file.");
          await take(one, [...at, one.name], path.join(to, one.name));
        }
      }
    };
    if (own.kind === "link" || own.kind === "other") await files.read(from, signal); // It says why not.
    await take(own, from, target, inside);
    const totalBytes = found.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const done = await withProgress(context, "Downloading", totalBytes, async (tell, stopped) => {
      await someAtATime(found, async (one) => {
        const { bytes } = await files.read(one.from, stopped);
        if (own.kind === "folder") await localTarget(one.to, "", false, force);
        await writeLocal(one.to, bytes, stopped, tell);
      });
      return { files: found.length, skipped };
    });
    return { ...done, target };
  });
}

export async function downloadTo(context: CliContext, files: VolumeFiles, from: Path, stream: NodeJS.WritableStream) {
  await interruptible(context, async (signal) => {
    const { bytes } = await files.read(from, signal);
    await pipeline(bytes, stream, { signal, end: false });
  });
}

async function withProgress(
  context: CliContext,
  verb: string,
  totalBytes: number | undefined,
  work: (tell: Tell, signal: AbortSignal) => Promise<Omit<Transferred, "bytes">>,
): Promise<Transferred> {
  const { terminal } = context;
  return interruptible(context, async (signal) => {
    const all = totalBytes === undefined ? "" : ` ${formatSize(totalBytes)}`;
    const progress = await terminal.progress(`${verb}${all}`);
    let bytes = 0;
    const tell: Tell = (more) => {
      bytes += more;
      if (!terminal.live) return;
      const part = totalBytes ? ` of${all} (${Math.min(100, Math.floor((100 * bytes) / totalBytes))} %)` : "";
      progress.update(`${verb} ${formatSize(bytes)}${part}`);
    };
    try {
      const done = await work(tell, signal);
      return { ...done, bytes };
    } finally {
      progress.done();
    }
  });
}

/** The first failure ends it, once those that run have ended. */
async function someAtATime<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  let failed = false;
  const one = async () => {
    for (const item of rest) {
      if (failed) return;
      await work(item).catch((error) => {
        failed = true;
        throw error;
      });
    }
  };
  const results = await Promise.allSettled(Array.from({ length: AT_ONCE }, one));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}
