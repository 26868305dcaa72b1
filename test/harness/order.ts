/**
 * In which order files run: what takes longest begins first, so that the last minutes are not one file's alone. How long each took is
 * known from earlier runs in this clone; before the first of them, files that need long say so, and those of whole platforms follow.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { minutesOf } from "./run-file.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const KEPT = path.join(ROOT, "node_modules/.cache/test-seconds.json");
/** Of files that nobody has timed here. */
const GUESSES: readonly (readonly [folder: RegExp, seconds: number])[] = [
  [/^test\/python\.test/, 60],
  [/^test\/e2e\//, 30],
  [/^test\/(console|security|dev|drivers|campaign)\//, 20],
  [/^test\/(cli|control-plane|client|gateway|host)\//, 10],
];

/** What `nameOf` calls a run is what it is known by in later runs. */
export function longestFirst<T extends { readonly file: string }>(runs: readonly T[], nameOf: (run: T) => string): T[] {
  const known = earlier();
  const seconds = new Map(runs.map((run) => [run, known[nameOf(run)] ?? guess(run.file)]));
  return runs.toSorted((a, b) => seconds.get(b)! - seconds.get(a)!);
}

/** For the next run; of several at once the last counts. */
export function keepSeconds(took: Readonly<Record<string, number>>): void {
  mkdirSync(path.dirname(KEPT), { recursive: true });
  writeFileSync(`${KEPT}.${process.pid}`, JSON.stringify({ ...earlier(), ...took }));
  renameSync(`${KEPT}.${process.pid}`, KEPT);
}

function earlier(): Readonly<Record<string, number>> {
  try {
    return existsSync(KEPT) ? JSON.parse(readFileSync(KEPT, "utf8")) : {};
  } catch {
    return {}; // It only says what to begin with.
  }
}

function guess(file: string): number {
  const minutes = minutesOf(file);
  if (minutes !== undefined) return minutes * 10;
  const name = path.relative(ROOT, file);
  return GUESSES.find(([folder]) => folder.test(name))?.[1] ?? 1;
}
