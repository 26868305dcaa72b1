/** Programs that tests build from Go modules, once: minutes of both processors. What is there stays in the cache folder. */
import { mkdirSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { CACHE } from "../bench/processes.ts";
import { onPath } from "../src/lib/on-path.ts";
import { runProcess } from "../src/lib/run-process.ts";

const BUILD_MAX_MS = 2_400_000;

export type Found = { readonly program: string } | { readonly missing: string };

interface GoBuild {
  /** What it is called in words. */
  readonly name: string;
  /** Where the program is to lie. */
  readonly program: string;
  /** Of "go", without the program's place; `sources` is a folder of its own. */
  readonly args: (sources: string) => readonly string[];
  /** Puts into the folder what is built, if anything. */
  readonly prepare?: (sources: string) => void;
}

export async function goBuild({ name, program, args, prepare }: GoBuild): Promise<Found> {
  const go = onPath("go", process.env.PATH ?? "");
  if (go === undefined) return { missing: `${name} is built with Go, which is not installed` };
  // It stays until the build is done: one that is ended goes on there.
  const coming = path.join(CACHE, `${path.basename(program)}-coming`);
  const sources = path.join(coming, String(process.pid));
  mkdirSync(sources, { recursive: true });
  prepare?.(sources);
  try {
    const modules = { GOMODCACHE: path.join(coming, "modules"), GOCACHE: path.join(coming, "compiled") };
    const places = { ...modules, GOBIN: sources, CGO_ENABLED: "0", GOFLAGS: "-modcacherw -trimpath" };
    // Not behind everything else: beside busy loops it would not end at all.
    const result = await runProcess(go, args(sources), {
      cwd: sources,
      env: { ...process.env, ...places },
      signal: AbortSignal.timeout(BUILD_MAX_MS),
    });
    if (result.code !== 0) {
      return { missing: `"go ${args(sources)[0]}" of ${name} failed: ${result.stderr.trim().split("\n").at(-1)}` };
    }
    mkdirSync(path.dirname(program), { recursive: true });
    renameSync(path.join(sources, path.basename(program)), program);
    rmSync(coming, { recursive: true, force: true });
    return { program };
  } finally {
    rmSync(sources, { recursive: true, force: true });
  }
}
