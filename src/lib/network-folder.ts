/**
 * A folder on a disk that may be another machine's, and may stop answering at any moment. Who asks such a disk waits in the kernel, in
 * one of the few threads that all files of this process share (libuv has 4), and cannot be called back:
 *
 *   run(work) ──▶ in line ──▶ at the disk, in one of THREADS ──▶ answered
 *                    └────────────┴── not within `patienceMs`: refused; and all others at once, until one at the disk is answered
 */
import type { Dirent } from "node:fs";
import { readdir, statfs } from "node:fs/promises";
import { join } from "node:path";
import { Standstill } from "./standstill.ts";
import { unlessAborted } from "./unless-aborted.ts";

const THREADS = 2;
const HOLDS_NOTHING = new Set(["ENOENT", "ENOTDIR", "EACCES"]);

interface NetworkFolderOptions {
  readonly patienceMs: number;
  /** What is thrown to whoever is refused. */
  readonly refusal: () => Error;
  /** Done at the disk before each work, which rejects as this does when it is not the folder that it should be. */
  readonly check?: () => Promise<void>;
  /** Called when it stops answering, or is another one, and with undefined when all is well again. */
  readonly told?: (problem: Error | undefined) => void;
}

interface RunOptions<T> {
  /** The work is with a file that is open already, and so with the right one. */
  readonly isOpen?: boolean;
  readonly late?: (value: T) => void;
  readonly patienceMs?: number;
}

const away = new Set<NetworkFolder>();
// The end of a process waits for its threads, and those at a disk that does not answer come back with it.
process.on("exit", () => {
  if (away.size > 0) process.kill(process.pid, "SIGKILL");
});

export class NetworkFolder {
  readonly path: string;
  readonly #options: NetworkFolderOptions;
  readonly #line: (() => Promise<void>)[] = [];
  #atDisk = 0;
  #settled: PromiseWithResolvers<void> | undefined;
  #watching: NodeJS.Timeout | undefined;
  /** It is another folder. */
  #mistaken: Error | undefined;

  constructor(path: string, options: NetworkFolderOptions) {
    this.path = path;
    this.#options = options;
  }

  /** Somebody waits at the disk who had no answer in time, or it was another one when it was looked at last. */
  get problem(): Error | undefined {
    return away.has(this) ? this.#options.refusal() : this.#mistaken;
  }

  /**
   * Does one thing to the folder, which takes a moment if the disk is well, and less than `patienceMs`. Rejects as `work` does, and
   * with the refusal. `late` gets what comes when nobody waits for it any more.
   */
  run<T>(
    work: () => Promise<T>,
    { isOpen = false, late, patienceMs = this.#options.patienceMs }: RunOptions<T> = {},
  ): Promise<T> {
    const { refusal } = this.#options;
    if (away.has(this)) return Promise.reject(refusal());
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let isAtDisk = false;
    let isOver = false;
    const stood = new Standstill(1.5 * patienceMs);
    const timer = setTimeout(() => {
      if (stood.happened()) {
        timer.refresh();
        return;
      }
      isOver = true;
      if (isAtDisk) this.#tell(true);
      reject(refusal());
    }, patienceMs);
    this.#enter(async () => {
      if (isOver) return;
      isAtDisk = true;
      try {
        if (!isOpen && this.#options.check !== undefined) await this.#look(this.#options.check);
        const value = await work();
        if (isOver) late?.(value);
        else resolve(value);
      } catch (error) {
        reject(error);
      } finally {
        clearTimeout(timer);
      }
    });
    return promise;
  }

  /** Asks the disk itself, not what the kernel remembers of it: so its `problem` is known before somebody needs it. */
  watch(everyMs: number): void {
    const look = () => this.run(() => statfs(this.path)).catch(() => {}); // It may not be made yet; who needs it is told.
    this.#watching = setInterval(look, everyMs).unref();
  }

  /** What is in a folder on that disk; [] when there is none, or it cannot be read. */
  list(folder: string): Promise<Dirent[]> {
    return this.run(() => readdir(folder, { withFileTypes: true })).catch((error: NodeJS.ErrnoException) => {
      if (HOLDS_NOTHING.has(error.code ?? "")) return [];
      throw error;
    });
  }

  /**
   * Names below `folder` that are `depth` folders deep, relative to it: 1 is what lies in it itself. Hidden ones are left out, links
   * are not entered. A pattern for node:fs says the same, but its first use costs more than opening a database.
   */
  async *entries(folder: string, depth: number): AsyncGenerator<string> {
    for (const entry of await this.list(folder)) {
      const { name } = entry;
      if (name.startsWith(".")) continue;
      if (depth === 1) yield name;
      else if (entry.isDirectory())
        for await (const below of this.entries(join(folder, name), depth - 1)) yield join(name, below);
    }
  }

  /** For what has to be done sometime, as closing what is open. */
  later(work: () => Promise<unknown>): void {
    this.#enter(async () => {
      await work().catch(() => {});
    });
  }

  /** Resolves when nobody is at the disk any more, or after `patienceMs`: then whatever ends this process does not wait for it. */
  async close(): Promise<void> {
    clearInterval(this.#watching);
    if (this.#atDisk === 0) return;
    this.#settled ??= Promise.withResolvers();
    const late = AbortSignal.timeout(this.#options.patienceMs);
    await unlessAborted(this.#settled.promise, late).catch(() => away.add(this));
  }

  #enter(step: () => Promise<void>): void {
    this.#line.push(step);
    this.#goOn();
  }

  #goOn(): void {
    while (this.#atDisk < THREADS) {
      const step = this.#line.shift();
      if (step === undefined) return;
      this.#atDisk += 1;
      const answered = () => this.#answered();
      step().then(answered, answered);
    }
  }

  #answered(): void {
    this.#atDisk -= 1;
    this.#tell(false);
    this.#goOn();
    if (this.#atDisk > 0) return;
    this.#settled?.resolve();
    this.#settled = undefined;
  }

  async #look(check: () => Promise<void>): Promise<void> {
    const was = this.#mistaken;
    this.#mistaken = await check().then(
      () => undefined,
      (error: Error) => error,
    );
    if ((was === undefined) !== (this.#mistaken === undefined)) this.#options.told?.(this.#mistaken);
    if (this.#mistaken !== undefined) throw this.#mistaken;
  }

  #tell(isAway: boolean): void {
    if (away.has(this) === isAway) return;
    if (isAway) away.add(this);
    else away.delete(this);
    this.#options.told?.(this.problem);
  }
}
