/**
 * A container engine and a worker image for tests, set up on first use and shared by all test files:
 *
 *   Docker and debootstrap installed (apt, as root) ─▶ daemon runs ─▶ root file system (~/.cache/svc-test) ─▶ image built
 *
 * Where a step is impossible, `skip` says which and why; nothing is skipped silently. A daemon that a test started is
 * stopped by the last test file that uses it.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import Docker from "dockerode";
import { onPath } from "../src/lib/on-path.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { aptInstall } from "./apt-install.ts";

const ROOT = path.resolve(import.meta.dirname, "..");
const CACHE = process.env.SVC_TEST_CACHE ?? path.join(homedir(), ".cache", "svc-test");
const SUITE = "bookworm";
const IMAGE = `svc-test/worker-cpu:${SUITE}`;
const DAEMON_START_MS = 60_000;
const DAEMON_END_MS = 30_000;
/** Once a machine, beside whatever else runs there. */
const STEP_MAX_MS = 900_000;

export interface TestDocker {
  /** Why tests that need containers cannot run here; false when they can. Give it to `test(…, { skip })`. */
  readonly skip: string | false;
  /** Has Python 3.11 and numpy. */
  readonly image: string;
  /** Root file system with python3, as a tar file. */
  readonly rootfs: string;
  /** Starts a platform that uses containers: `startPlatform(t, docker.env)`. */
  readonly env: Readonly<Record<string, string>>;
  readonly engine: Docker;
  /** An address of this machine that containers reach. */
  bridge(): Promise<string>;
}

/** Call it at the top of a test file: `const docker = await dockerForTests();` */
export async function dockerForTests(): Promise<TestDocker> {
  const { docker, release } = await holdDocker();
  after(release);
  return docker;
}

/** The set-up itself. `release` lets go of the daemon: one that was started for the tests ends with the last who holds it. */
export async function holdDocker(): Promise<{ readonly docker: TestDocker; release(): Promise<void> }> {
  const rootfs = path.join(CACHE, `rootfs-${SUITE}-${process.arch}.tar`);
  const env = { SVC_DRIVER: "docker", SVC_CPU_IMAGE: IMAGE, SVC_GPU_IMAGE: IMAGE };
  const engine = new Docker();
  const bridge = async () => {
    const { Gateway, Subnet } = (await engine.getNetwork("bridge").inspect()).IPAM!.Config![0]!;
    // Docker 20 does not say it of the bridge that a daemon finds at its start: it is the first of the network.
    return Gateway ?? Subnet!.replace(/\.0\/\d+$/, ".1");
  };
  const offer = { image: IMAGE, rootfs, env, engine, bridge };
  let release = async () => {};
  try {
    mkdirSync(CACHE, { recursive: true });
    await locked(async () => {
      release = await ensureDaemon(offer.engine);
      await ensureRootfs(rootfs);
      await ensureImage(offer.engine, rootfs);
    });
    return { docker: { ...offer, skip: false }, release };
  } catch (error) {
    if (error instanceof Impossible) return { docker: { ...offer, skip: error.message }, release };
    throw error;
  }
}

class Impossible extends Error {}

/** The root file system alone, for images that are made without an engine. Throws where it cannot be made. */
export async function rootfsForTests(): Promise<string> {
  const rootfs = path.join(CACHE, `rootfs-${SUITE}-${process.arch}.tar`);
  mkdirSync(CACHE, { recursive: true });
  await locked(() => ensureRootfs(rootfs));
  return rootfs;
}

/** Resolves what lets go of it. */
async function ensureDaemon(engine: Docker): Promise<() => Promise<void>> {
  const users = path.join(CACHE, "daemon-users");
  const startedByUs = path.join(CACHE, "daemon-pid");
  forgetEnded(startedByUs);
  const answer = await engine.ping().then(
    () => undefined,
    (error: NodeJS.ErrnoException) => error,
  );
  if (answer?.code === "EACCES") throw new Impossible("this user may not use Docker (it is not in the group docker)");
  if (answer !== undefined) {
    if (process.getuid?.() !== 0) throw new Impossible("no Docker daemon runs, and only root can start one");
    await installed("dockerd", "docker.io");
    const logFile = path.join(CACHE, "dockerd.log");
    const log = openSync(logFile, "w");
    const child = spawn("dockerd", [], { detached: true, stdio: ["ignore", log, log] });
    child.unref();
    const end = Date.now() + DAEMON_START_MS;
    while (!(await engine.ping().catch(() => false))) {
      if (Date.now() > end || child.exitCode !== null) {
        const last = readFileSync(logFile, "utf8").trim().split("\n").at(-1);
        throw new Impossible(`dockerd does not start: ${last}`);
      }
      await delay(100);
    }
    writeFileSync(startedByUs, String(child.pid));
    rmSync(users, { recursive: true, force: true });
  }
  if (!existsSync(startedByUs)) return async () => {};
  mkdirSync(users, { recursive: true });
  writeFileSync(path.join(users, String(process.pid)), "");
  return () =>
    locked(async () => {
      rmSync(path.join(users, String(process.pid)), { force: true });
      const others = readdirSync(users).filter((pid) => existsSync(`/proc/${pid}`));
      if (others.length > 0) return;
      forgetEnded(startedByUs);
      if (!existsSync(startedByUs)) return;
      const pid = Number(readFileSync(startedByUs, "utf8"));
      process.kill(pid, "SIGTERM");
      // While it ends it still answers, or keeps another from starting: whoever comes next would find no engine.
      const end = performance.now() + DAEMON_END_MS;
      while (existsSync(`/proc/${pid}`) && performance.now() < end) await delay(50);
      forgetEnded(startedByUs);
    });
}

/** A daemon that ended otherwise leaves its file, and another process may have its pid. */
function forgetEnded(startedByUs: string): void {
  try {
    const pid = readFileSync(startedByUs, "utf8");
    if (readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "dockerd") return;
  } catch {} // There is none of them.
  rmSync(startedByUs, { force: true });
}

/** A minimal Debian with python3; made in half a minute, once. */
async function ensureRootfs(file: string): Promise<void> {
  if (existsSync(file)) return;
  if (process.getuid?.() !== 0) throw new Impossible("only root can make a root file system with debootstrap");
  await installed("debootstrap", "debootstrap");
  const dir = `${file}.${process.pid}`;
  try {
    await step("debootstrap", ["--variant=minbase", "--include=python3", SUITE, dir]);
    const leftOut = [
      "./proc/*",
      "./sys/*",
      "./dev/*",
      "./var/cache/apt/*",
      "./var/lib/apt/lists/*",
      "./usr/share/doc/*",
    ];
    const excludes = leftOut.flatMap((pattern) => ["--exclude", pattern]);
    await step("tar", ["-C", dir, ...excludes, "-cf", `${dir}.part`, "."]);
    renameSync(`${dir}.part`, file);
  } finally {
    // One that was cut off leaves it mounted.
    await runProcess("umount", [path.join(dir, "proc")]).catch(() => {});
    rmSync(dir, { recursive: true, force: true });
  }
}

async function ensureImage(engine: Docker, rootfs: string): Promise<void> {
  const there = await engine
    .getImage(IMAGE)
    .inspect()
    .catch(() => undefined);
  if (there !== undefined) return;
  const args = ["platform", "images", "build", "--rootfs", rootfs, "--packages", "numpy", "--tag", IMAGE];
  await step(path.join(ROOT, "bin/svc"), args);
}

async function installed(program: string, aptPackage: string): Promise<void> {
  const found = () => onPath(program, process.env.PATH ?? "") !== undefined;
  if (found()) return;
  const problem = await aptInstall(aptPackage);
  if (!found()) throw new Impossible(problem ?? `${aptPackage} brought no ${program}`);
}

async function step(command: string, args: readonly string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", CI: "1", NO_COLOR: "1" };
  const options = { env, group: true, signal: AbortSignal.timeout(STEP_MAX_MS) };
  const failed = (why: string | undefined) => new Impossible(`"${path.basename(command)} ${args[0]}" failed: ${why}`);
  const result = await runProcess(command, args, options).catch((error: Error) => {
    throw failed(error.message);
  });
  if (result.code !== 0) throw failed(`${result.stdout}\n${result.stderr}`.trim().split("\n").at(-1));
}

/** One test process at a time; the lock of one that died does not count. */
async function locked(work: () => Promise<void>): Promise<void> {
  const lock = path.join(CACHE, "lock");
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: "wx" });
      break;
    } catch {
      const owner = existsSync(lock) ? readFileSync(lock, "utf8") : "";
      if (owner !== "" && !existsSync(`/proc/${owner}`)) rmSync(lock, { force: true });
      await delay(50);
    }
  }
  try {
    await work();
  } finally {
    rmSync(lock, { force: true });
  }
}
