/** The peer for durable jobs: Celery with Redis, two worker processes, tasks acknowledged when they are done. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { runProcess } from "../src/lib/run-process.ts";
import { pythonEnvironment, startServer } from "./processes.ts";

const PEERS = path.resolve(import.meta.dirname, "peers");

export interface CeleryRound {
  /** Tasks from the first submission to the last acknowledgement. */
  readonly perSecond: number;
  readonly submittedPerSecond: number;
  /** One task at a time, submission to result. */
  readonly p50Ms: number;
}

export interface Celery {
  readonly versions: string;
  run(tasks: number): Promise<CeleryRound>;
  stop(): Promise<void>;
}

/** Undefined when there is no redis-server (Debian package `redis-server`). */
export async function startCelery(workers: number): Promise<Celery | undefined> {
  const found = await runProcess("redis-server", ["--version"]).catch(() => undefined);
  if (found === undefined) return undefined;
  const bin = await pythonEnvironment("celery", ["celery[redis]"]);
  const celery = (await runProcess(`${bin}/celery`, ["--version"])).stdout.trim();
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const redis = await startServer("redis-server", (port) =>
    ["--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes"].map(String),
  );
  const env = { ...process.env, BENCH_REDIS: `redis://127.0.0.1:${redis.port}/0` };
  const quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "error"];
  const worker = spawn(`${bin}/celery`, ["-A", "celery_app", "worker", "-c", String(workers), ...quiet], {
    cwd: PEERS,
    env,
    stdio: "ignore",
  });
  const submitter = spawn(`${bin}/python`, ["celery_submit.py"], {
    cwd: PEERS,
    env,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface(submitter.stdout!)[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error("the Celery peer ended");
    return JSON.parse(value);
  };
  await answer();
  return {
    versions: `celery ${celery}, ${/v=[\d.]+/.exec(found.stdout)?.[0].replace("v=", "redis ")} (appendonly), ${workers} workers, acks_late`,
    run: async (tasks) => {
      submitter.stdin!.write(`${tasks}\n`);
      return answer();
    },
    stop: async () => {
      submitter.stdin!.end();
      await ended(submitter);
      worker.kill("SIGTERM");
      await ended(worker);
      await redis.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}
