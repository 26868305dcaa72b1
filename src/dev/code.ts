/**
 * The project's code as it is now: built anew whenever a file changed, by the watcher's word or by a look when a call
 * arrives. What does not build changes nothing: the last build that worked stays the one in use.
 */

import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { buildLayers, type LayerOptions, type LayersBuild, localPython, once } from "../build/build-layers.ts";
import { fileProblem, projectGone } from "../build/file-problem.ts";
import { LayerCache } from "../build/layer-cache.ts";
import { listProjectFiles } from "../build/project-files.ts";
import { PythonScanner } from "../build/python-scanner.ts";
import { removeWorkDirectory, workDirectory } from "../build/work-directory.ts";

/** Files that never stop changing (a log in the project) must not hold up a call for ever. */
const ROUNDS_MAX = 3;

interface CodeOptions {
  readonly projectDir: string;
  readonly env: LayerOptions["env"];
  readonly cacheDir: string;
  readonly configDir: string;
  /** Command or path; default python3. */
  readonly python: string | undefined;
  /** False: the code stays as it was at the start. */
  readonly reload: boolean;
  readonly adjust?: LayerOptions["adjust"];
  /** What takes time, as it goes on. */
  onProgress(detail: string): void;
  /** A build worked; `before` is the one it replaces. Not called when nothing changed. */
  onBuilt(build: LayersBuild, before: LayersBuild | undefined): void;
  onFailed(error: unknown): void;
  /** The project's folder was moved or removed. */
  onGone(error: unknown): void;
}

export class ProjectCode {
  readonly #options: CodeOptions;
  readonly #cache: LayerCache;
  /** Stays: to start one for each save would cost more than the build. */
  readonly #scanner: PythonScanner;
  readonly #interpreter: () => ReturnType<typeof localPython>;
  readonly #stop = new AbortController();
  #snapshot: Snapshot | undefined;
  #current: LayersBuild | undefined;
  #running: Promise<void> | undefined;
  #failed = false;

  constructor(options: CodeOptions) {
    const { projectDir, env, python } = options;
    this.#options = options;
    const cache = new LayerCache(options);
    this.#cache = cache;
    this.#interpreter = once(() => localPython({ command: python, projectDir, cache, env }));
    this.#scanner = new PythonScanner(this.#interpreter);
  }

  /** The first build. Throws what stands in its way. */
  async start(): Promise<LayersBuild> {
    this.#current = await this.#buildOnce();
    return this.#current;
  }

  /** The newest code that builds. */
  async latest(): Promise<LayersBuild> {
    if (this.#options.reload) await this.refresh();
    return this.#current!;
  }

  get current(): LayersBuild {
    return this.#current!;
  }

  /** Whether rules leave this path out, as of the last look. */
  isLeftOut(relative: string): boolean {
    return this.#snapshot?.isLeftOut(relative) ?? false;
  }

  /** Resolves when what stood in the files at the time of the call is built, or does not build. */
  async refresh(): Promise<void> {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const stale = this.#snapshot?.isCurrent() === false;
      if (stale) this.#running ??= this.#rebuild().finally(() => this.#done());
      if (this.#running === undefined) return;
      await this.#running;
    }
  }

  close(): void {
    this.#stop.abort();
    this.#scanner.close();
  }

  #done(): void {
    this.#running = undefined;
  }

  async #rebuild(): Promise<void> {
    const { projectDir, onBuilt, onFailed, onGone } = this.#options;
    if (!existsSync(projectDir)) return onGone(projectGone(projectDir));
    try {
      const before = this.#current;
      const build = await this.#buildOnce();
      const wasBroken = this.#failed;
      this.#failed = false;
      if (before !== undefined && isSame(build, before) && !wasBroken) return;
      this.#current = build;
      onBuilt(build, before);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      if (!existsSync(projectDir)) return onGone(projectGone(projectDir, error));
      this.#failed = true;
      onFailed(error);
    }
  }

  async #buildOnce(): Promise<LayersBuild> {
    const { projectDir, env, cacheDir, adjust, onProgress } = this.#options;
    const workDir = workDirectory(projectDir, false);
    try {
      this.#snapshot = takeSnapshot(projectDir);
      return await buildLayers({
        changesTogether: true,
        adjust,
        projectDir,
        workDir,
        env,
        cache: this.#cache,
        interpreter: this.#interpreter,
        scanner: this.#scanner,
        onProgress: ({ detail }) => detail !== undefined && onProgress(detail),
        signal: this.#stop.signal,
      });
    } catch (error) {
      throw fileProblem(error, { cacheDir, projectDir });
    } finally {
      await removeWorkDirectory(workDir);
    }
  }
}

function isSame(a: LayersBuild, b: LayersBuild): boolean {
  return JSON.stringify([a.manifest, a.env]) === JSON.stringify([b.manifest, b.env]);
}

interface Snapshot {
  isCurrent(): boolean;
  /** Whether a path, relative to the project, is left out by a rule. */
  isLeftOut(relative: string): boolean;
}

/**
 * What the project's files looked like at one moment, and whether they still do: a look at sizes and times that costs less
 * than a millisecond for a hundred files. A call that arrives right behind a save is so ahead of any watcher.
 */
export function takeSnapshot(projectDir: string): Snapshot {
  const { files, folders, dropped } = listProjectFiles(projectDir);
  const stamps = new Map<string, string>();
  // The folders first: a file that appears meanwhile changes its folder.
  for (const folder of folders) {
    for (const name of ["", ".gitignore", ".svcignore"])
      stamps.set(folder + name, stampOf(path.join(projectDir, folder + name)));
  }
  for (const file of files) {
    if (file.linkTo === undefined) stamps.set(file.path, file.stamp);
  }
  const out = new Set(dropped.map((one) => one.path));
  return {
    isCurrent() {
      for (const [name, stamp] of stamps) if (stampOf(path.join(projectDir, name)) !== stamp) return false;
      return true;
    },
    isLeftOut(relative) {
      const parts = relative.split("/");
      return parts.some((_part, i) => {
        const upTo = parts.slice(0, i + 1).join("/");
        return out.has(upTo) || out.has(`${upTo}/`);
      });
    },
  };
}

function stampOf(file: string): string {
  try {
    const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
    return stat === undefined ? "" : `${stat.size}-${stat.mtimeNs}-${stat.ctimeNs}-${stat.ino}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "";
  }
}
