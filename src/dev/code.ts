/**
 * The project's code as it is now: built anew whenever a file changed, by the watcher's word or by a look when a call
 * arrives. What does not build changes nothing: the last build that worked stays the one in use.
 */
import { buildLayers, type LayerOptions, type LayersBuild, localPython, once } from "../build/build-layers.ts";
import { fileProblem } from "../build/file-problem.ts";
import { LayerCache } from "../build/layer-cache.ts";
import { PythonScanner } from "../build/python-scanner.ts";
import { removeWorkDirectory, workDirectory } from "../build/work-directory.ts";
import { type Snapshot, takeSnapshot } from "./snapshot.ts";

/** Files that never stop changing (a log in the project) must not hold up a call for ever. */
const ROUNDS_MAX = 3;

export interface CodeOptions {
  readonly projectDir: string;
  readonly env: LayerOptions["env"];
  readonly cacheDir: string;
  readonly configDir: string;
  /** Command or path; default python3. */
  readonly python: string | undefined;
  /** False: the code stays as it was at the start. */
  readonly reload: boolean;
  /** What takes time, as it goes on. */
  onProgress(detail: string): void;
  /** A build worked; `before` is the one it replaces. Not called when nothing changed. */
  onBuilt(build: LayersBuild, before: LayersBuild | undefined): void;
  onFailed(error: unknown): void;
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
    this.#snapshot = takeSnapshot(this.#options.projectDir);
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
    const { projectDir, onBuilt, onFailed } = this.#options;
    try {
      this.#snapshot = takeSnapshot(projectDir);
      const before = this.#current;
      const build = await this.#buildOnce();
      const wasBroken = this.#failed;
      this.#failed = false;
      if (before !== undefined && isSame(build, before) && !wasBroken) return;
      this.#current = build;
      onBuilt(build, before);
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#failed = true;
      onFailed(error);
    }
  }

  async #buildOnce(): Promise<LayersBuild> {
    const { projectDir, env, cacheDir, onProgress } = this.#options;
    const workDir = workDirectory(projectDir, false);
    try {
      return await buildLayers({
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
      throw fileProblem(error, cacheDir);
    } finally {
      await removeWorkDirectory(workDir);
    }
  }
}

function isSame(a: LayersBuild, b: LayersBuild): boolean {
  return JSON.stringify([a.manifest, a.env]) === JSON.stringify([b.manifest, b.env]);
}
