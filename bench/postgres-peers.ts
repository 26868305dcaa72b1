/** Peers of the queue on PostgreSQL: queues that keep their jobs there, each in a database of its own of the same server. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { createInterface } from "node:readline";
import { nodePackages } from "../test/node-packages.ts";
import type { PostgresServer } from "../test/postgres.ts";
import { pythonEnvironment } from "./processes.ts";

const PEERS = path.resolve(import.meta.dirname, "peers");
const NODE_PACKAGES = ["pg-boss@12", "graphile-worker@0.18", "pg@8"];
const PYTHON_PACKAGES = ["procrastinate==3.*", "psycopg[binary,pool]"];

export interface Peer {
  readonly name: string;
  readonly pid: number;
  /** Jobs a second, from the first submission until none is open. */
  run(jobs: number): Promise<number>;
}

export interface Peers {
  readonly all: readonly Peer[];
  readonly about: string;
  stop(): Promise<void>;
}

export async function startPeers(server: PostgresServer): Promise<Peers> {
  const started: { readonly peer: Peer; readonly child: ChildProcess }[] = [];
  const missing: string[] = [];
  const start = async (name: string, program: () => Promise<readonly string[]>) => {
    try {
      const [command, ...args] = await program();
      const url = await server.database(name.replace("-", "_"));
      started.push(await startPeer(name, command!, [...args, url]));
    } catch (error) {
      missing.push(`${name} (${(error as Error).message.split("\n")[0]})`);
    }
  };
  for (const name of ["pg-boss", "graphile-worker"]) {
    const program = path.join(PEERS, "postgres_queues.mjs");
    await start(name, async () => [process.execPath, program, name, await nodePackages(NODE_PACKAGES)]);
  }
  await start("procrastinate", async () => [
    `${await pythonEnvironment("procrastinate", PYTHON_PACKAGES)}/python`,
    path.join(PEERS, "procrastinate_jobs.py"),
  ]);
  const about = [
    `${[...NODE_PACKAGES, ...PYTHON_PACKAGES].join(", ")}: in the process that submits, without HTTP and keys; graphile-worker and Procrastinate keep no result`,
    "not there: River (a Go program of its own), Hatchet (a server that no registry has as a package)",
    ...(missing.length > 0 ? [`skipped: ${missing.join(", ")}`] : []),
  ].join("; ");
  return {
    all: started.map(({ peer }) => peer),
    about,
    stop: async () => {
      for (const { child } of started) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        const ended = once(child, "exit");
        child.kill("SIGKILL");
        await ended;
      }
    },
  };
}

async function startPeer(name: string, command: string, args: readonly string[]) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface(child.stdout!)[Symbol.asyncIterator]();
  const answer = async (): Promise<{ seconds: number }> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${name} ended`);
    return JSON.parse(value);
  };
  await answer();
  const run = async (jobs: number) => {
    child.stdin!.write(`${jobs}\n`);
    return jobs / (await answer()).seconds;
  };
  return { child, peer: { name, pid: child.pid!, run } };
}
