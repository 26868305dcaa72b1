/**
 * What the wanted test files share: programs of the machine, whose installation takes longer than a test may and is done by a
 * package manager that serves one at a time, the packages that we hand out, and the servers of a run with servers. It is made
 * beside the first files; those that need a part wait for it:
 *
 *   API server (of a run with Pods)
 *   the program ─▶ ┬ PostgreSQL ─▶ Prometheus ─▶ Chromium ─▶ Docker
 *                  └ what is handed out ─▶ clients ─▶ S3 ─▶ servers (when PostgreSQL is there)
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { findChromium } from "./browser.ts";
import { installClients } from "./client-packages.ts";
import { holdDocker } from "./docker.ts";
import { modulesOf } from "./harness/modules-of.ts";
import { makeProgram } from "./make-program.ts";
import { makeHandedOut } from "./package.ts";
import { type StartedCluster, startForPods } from "./pods.ts";
import { findPostgres, makeTemplate } from "./postgres.ts";
import { findPrometheus } from "./prometheus.ts";
import { findS3 } from "./s3.ts";
import { type StartedServers, startServers } from "./servers.ts";

/** What a run has besides. */
export interface With {
  /** PostgreSQL and S3. */
  readonly servers: boolean;
  /** Pods that run workers. */
  readonly pods: boolean;
}

const API_SERVER = "the API server";

interface Part {
  isDone: boolean;
  readonly done: Promise<void>;
}

/** Folders whose tests start svc. */
const STARTS_SVC = /\/test\/(e2e|campaign|security|dev|cli|console|docs|host|build|kubernetes)\//;
const PYTHON = path.resolve(import.meta.dirname, "../python/src");
const TOLD_S = 5;

export class SetUp {
  /** Or why there are none. */
  servers: StartedServers | string = "no file wants them";
  /** The same. */
  pods: StartedCluster | string = "no file wants them";
  /** What took long, in words. */
  readonly told: string[] = [];
  readonly #parts = new Map<string, Part>();
  readonly #needs = new Map<string, ReadonlySet<string>>();
  readonly #ends: (() => Promise<void> | void)[] = [];

  /** Begins with what those files need. */
  static async begin(files: readonly string[], runs: readonly With[]): Promise<SetUp> {
    const setUp = new SetUp();
    await setUp.#begin(files, runs);
    return setUp;
  }

  async #begin(files: readonly string[], runs: readonly With[]): Promise<void> {
    const withServers = runs.some(({ servers }) => servers);
    passShims();
    if (files.some((file) => STARTS_SVC.test(file))) {
      process.env.SVC_TEST_PROGRAM ??= await makeProgram();
      // Workers may write nothing there: each would compile anew what no other has before.
      execFileSync("python3", ["-m", "compileall", "-q", PYTHON]);
    }
    // Whoever imports servers.ts uses what is started here.
    for (const file of files) this.#needs.set(file, modulesOf(file, /\/servers\.ts$/));
    const needs = (name: string) => files.some((file) => this.#needs.get(file)!.has(name));
    const wanted = (name: string, isWanted: boolean, work: () => Promise<unknown>) =>
      isWanted ? [[name, work] as const] : [];
    const part = (name: string, work: () => Promise<unknown>) => wanted(name, needs(name), work);
    const cluster = this.#inTurn(
      wanted(
        API_SERVER,
        runs.some(({ pods }) => pods),
        async () => {
          this.pods = await startForPods();
          if (typeof this.pods === "object") this.#ends.push(this.pods.stop);
        },
      ),
    );
    const first = this.#inTurn([
      ...wanted("postgres.ts", withServers || needs("postgres.ts"), async () => {
        const found = await findPostgres();
        if ("missing" in found) return;
        const folder = await makeTemplate(found.bin);
        this.#ends.push(() => rmSync(folder, { recursive: true, force: true }));
      }),
      ...part("prometheus.ts", findPrometheus),
      ...part("browser.ts", findChromium),
      ...part("docker.ts", async () => {
        const { release } = await holdDocker();
        this.#ends.push(release);
      }),
    ]);
    const postgres = this.#parts.get("postgres.ts");
    const second = this.#inTurn([
      ...part("package.ts", () => this.#handOut()),
      ...part("client-packages.ts", installClients),
      ...wanted("s3.ts", withServers || needs("s3.ts"), findS3),
      ...wanted("servers.ts", withServers, async () => {
        await postgres?.done;
        this.servers = await startServers();
        if (typeof this.servers === "object") this.#ends.push(this.servers.stop);
      }),
    ]);
    this.#ends.unshift(() => Promise.all([cluster, first, second]).then(() => {}));
  }

  /** Whether all is there that a file needs. */
  isReady(file: string, { servers, pods }: With): boolean {
    const is = (name: string) => this.#parts.get(name)?.isDone ?? true;
    if ((servers && !is("servers.ts")) || (pods && !is(API_SERVER))) return false;
    return [...this.#needs.get(file)!].every(is);
  }

  /** Resolves when a further part is there. */
  async next(): Promise<void> {
    await Promise.race([...this.#parts.values()].filter(({ isDone }) => !isDone).map(({ done }) => done));
  }

  async end(): Promise<void> {
    // The first awaits the parts, which add theirs meanwhile.
    for (const end of this.#ends) await end();
  }

  /** What cannot be made is tried again by the files that need it, which then say why. */
  #inTurn(works: readonly (readonly [name: string, work: () => Promise<unknown>])[]): Promise<void> {
    let last: Promise<void> = Promise.resolve();
    for (const [name, work] of works) {
      const done = last.then(async () => {
        const began = performance.now();
        await work().catch((error: Error) => console.error(`${name}: ${error.message}`));
        part.isDone = true;
        const seconds = (performance.now() - began) / 1000;
        if (seconds > TOLD_S) this.told.push(`${name.replace(/\.ts$/, "")} ${seconds.toFixed(0)} s`);
      });
      const part: Part = { isDone: false, done };
      this.#parts.set(name, part);
      last = done;
    }
    return last;
  }

  async #handOut(): Promise<void> {
    const folder = mkdtempSync(path.join(tmpdir(), "svc-dist-"));
    this.#ends.push(() => rmSync(folder, { recursive: true, force: true }));
    // Whoever the files run as may install it.
    chmodSync(folder, 0o755);
    process.env.SVC_TEST_DIST = JSON.stringify(await makeHandedOut(folder));
  }
}

/** Version managers put a script where python3 is looked for, which starts ten processes before each Python: who is behind it comes first. */
function passShims(): void {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  const found = folders.map((folder) => path.join(folder, "python3")).find((file) => existsSync(file));
  if (found === undefined || readFileSync(found).subarray(0, 2).toString() !== "#!") return;
  const code = "import os, sys; print(os.path.dirname(sys.executable))";
  const real = execFileSync(found, ["-c", code], { encoding: "utf8" }).trim();
  process.env.PATH = [real, ...folders].join(path.delimiter);
}
