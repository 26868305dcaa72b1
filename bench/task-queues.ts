/** The peers for durable jobs: task queues with their broker, two worker processes each. They are what bench/peers/submit.py submits to. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { runProcess } from "../src/lib/run-process.ts";
import { findPostgres, startPostgres } from "../test/postgres.ts";
import { installedVersion, pythonEnvironment, startServer } from "./processes.ts";
import { eachUs, type Parts, processorTime } from "./processor-time.ts";

const PEERS = path.resolve(import.meta.dirname, "peers");

interface Kind {
  readonly packages: readonly string[];
  readonly broker: "redis" | "postgresql";
  /** Of one round: some seconds' work. */
  readonly tasks: number;
  readonly how: string;
  /** Command lines, without the folder of the programs, that are `workers` processes together. */
  commands(workers: number, url: string): readonly (readonly string[])[];
}

const procrastinate = ["procrastinate", "--app", "procrastinate_app.app"];

export const TASK_QUEUES = {
  celery: {
    packages: ["celery[redis]"],
    broker: "redis",
    tasks: 3_000,
    how: "acks_late",
    commands: (workers) => {
      const quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "error"];
      return [["celery", "-A", "celery_app", "worker", "-c", `${workers}`, ...quiet]];
    },
  },
  rq: {
    packages: ["rq"],
    broker: "redis",
    tasks: 100,
    how: "a process for each job",
    commands: (workers, url) => [["rq", "worker-pool", "-n", `${workers}`, "-u", url, "-q"]],
  },
  dramatiq: {
    packages: ["dramatiq[redis]"],
    broker: "redis",
    tasks: 3_000,
    how: "1 thread a process, results kept",
    commands: (workers) => [["dramatiq", "dramatiq_app", "--processes", `${workers}`, "--threads", "1"]],
  },
  huey: {
    packages: ["huey[redis]"],
    broker: "redis",
    tasks: 3_000,
    how: "a task is lost with its worker",
    commands: (workers) => [["huey_consumer", "huey_app.huey", "-w", `${workers}`, "-k", "process", "-q"]],
  },
  procrastinate: {
    packages: ["procrastinate", "psycopg[binary,pool]"],
    broker: "postgresql",
    tasks: 1_000,
    how: "no results kept",
    commands: (workers) => Array.from({ length: workers }, () => [...procrastinate, "worker", "--concurrency", "1"]),
  },
} satisfies Record<string, Kind>;

export type TaskQueueName = keyof typeof TASK_QUEUES;

export interface TaskQueueRound {
  /** Tasks from the first submission to the last acknowledgement. */
  readonly perSecond: number;
  readonly submittedPerSecond: number;
  /** Processor time of each task: `submitter`, `workers` and `broker`. */
  readonly us: Readonly<Record<string, number>>;
  /** One task at a time, submission to result. */
  readonly p50Ms: number;
}

export interface TaskQueue {
  readonly versions: string;
  run(tasks?: number): Promise<TaskQueueRound>;
  stop(): Promise<void>;
}

/** Or why it cannot be compared with here. */
export async function startTaskQueue(
  name: TaskQueueName,
  workers: number,
): Promise<TaskQueue | { readonly missing: string }> {
  const kind: Kind = TASK_QUEUES[name];
  const stops: (() => unknown)[] = [];
  const stop = async () => {
    for (const each of stops.toReversed()) await each();
  };
  try {
    const bin = await pythonEnvironment(name, kind.packages);
    const broker = await (kind.broker === "redis" ? startRedis() : startDatabase());
    stops.push(broker.stop);
    const options = { cwd: PEERS, env: { ...process.env, BENCH_BROKER: broker.url, PYTHONPATH: PEERS } };
    const program = ([command = "", ...args]: readonly string[], stdio: "ignore" | ["pipe", "pipe", "inherit"]) => {
      const child = spawn(path.join(bin, command), args, { ...options, stdio });
      stops.push(() => ended(child));
      return child;
    };
    if (kind.broker === "postgresql") {
      const made = await runProcess(
        path.join(bin, procrastinate[0]!),
        [...procrastinate.slice(1), "schema", "--apply"],
        options,
      );
      if (made.code !== 0) throw new Error(`the schema of ${name} was not made: ${made.stderr}`);
    }
    const workerPids = kind.commands(workers, broker.url).map((command) => program(command, "ignore").pid!);
    const submitter = program(["python", "submit.py", `${name}_app`], ["pipe", "pipe", "inherit"]);
    const lines = createInterface(submitter.stdout!)[Symbol.asyncIterator]();
    const answer = async () => {
      const { value, done } = await lines.next();
      if (done) throw new Error(`the peer ${name} ended`);
      return JSON.parse(value);
    };
    await answer();
    const parts: Parts = {
      submitter: { pids: [submitter.pid!] },
      workers: { pids: workerPids, tree: true },
      broker: { pids: [broker.pid], tree: true },
    };
    const ask = async (line: string) => {
      submitter.stdin!.write(`${line}\n`);
      return answer();
    };
    return {
      versions: `${name} ${await installedVersion(bin, name)}, ${broker.version}, ${workers} workers, ${kind.how}`,
      run: async (tasks = kind.tasks) => {
        const spent = processorTime(parts);
        const rates = await ask(`${tasks}`);
        const us = eachUs(spent(), tasks);
        return { ...rates, us, ...(await ask("round trips")) };
      },
      stop,
    };
  } catch (error) {
    await stop();
    return { missing: `${name}: ${(error as Error).message}` };
  }
}

interface Broker {
  readonly url: string;
  readonly pid: number;
  readonly version: string;
  stop(): Promise<void>;
}

async function startRedis(): Promise<Broker> {
  const found = await runProcess("redis-server", ["--version"]).catch(() => undefined);
  if (found === undefined) throw new Error("redis-server is missing: apt-get install redis-server");
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const redis = await startServer("redis-server", (port) =>
    ["--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes"].map(String),
  );
  const stop = async () => {
    await redis.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  const version = `redis ${/v=([\d.]+)/.exec(found.stdout)?.[1]} (appendonly)`;
  return { url: `redis://127.0.0.1:${redis.port}/0`, pid: redis.pid, version, stop };
}

/** What it acknowledges survives its processes, as Redis and our queue have it here; not the machine. */
async function startDatabase(): Promise<Broker> {
  const found = await findPostgres();
  if ("missing" in found) throw new Error(found.missing);
  const server = await startPostgres(found.bin, { durable: true, settings: { synchronous_commit: "off" } });
  const pid = Number(readFileSync(path.join(server.dataDir, "postmaster.pid"), "utf8").split("\n")[0]);
  const version = `postgresql ${await server.sql("SHOW server_version")} (synchronous_commit off)`;
  return { url: server.url, pid, version, stop: server.stop };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await exit;
  clearTimeout(late);
}
