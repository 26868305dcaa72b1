/** PostgreSQL servers of tests: clusters of their own in a folder below the system's temp, of Debian's programs. */
import assert from "node:assert/strict";
import { type ChildProcess, type ExecFileOptions, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, globSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { runProcess } from "../src/lib/run-process.ts";
import { aptInstall } from "./apt-install.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";

const run = promisify(execFile);
const START_MAX_MS = 180_000;
/** Names it to the files of a run. */
const TEMPLATE = "SVC_TEST_POSTGRES_TEMPLATE";
const find = () => globSync("/usr/lib/postgresql/*/bin/initdb").map(path.dirname).sort(byVersion).at(-1);

function byVersion(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

/** The folder of its programs, or why there is none. */
export async function findPostgres(): Promise<{ readonly bin: string } | { readonly missing: string }> {
  try {
    userInfo();
  } catch {
    return { missing: "PostgreSQL starts for users that have an account only" };
  }
  const there = find();
  if (there !== undefined) return { bin: there };
  const problem = await aptInstall("postgresql");
  const bin = find();
  return bin === undefined ? { missing: problem ?? "PostgreSQL is not installed" } : { bin };
}

/**
 * Makes a cluster that nothing runs in, of which each server of this run begins with a copy: to make one takes three times the
 * processor time. Resolves its folder.
 */
export async function makeTemplate(bin: string): Promise<string> {
  const folder = mkdtempSync("/tmp/svc-postgres-");
  const user = serverUser();
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid!);
  await initialize(bin, path.join(folder, "data"), { ...user, cwd: folder, env: { ...process.env, LC_ALL: "C" } });
  process.env[TEMPLATE] = path.join(folder, "data");
  return folder;
}

/** None where the files of this run belong to somebody else. */
function template(uid = process.getuid!()): string | undefined {
  const { [TEMPLATE]: folder } = process.env;
  return folder !== undefined && statSync(folder, { throwIfNoEntry: false })?.uid === uid ? folder : undefined;
}

async function initialize(bin: string, dataDir: string, options: ExecFileOptions, ...more: string[]): Promise<void> {
  const made = ["-D", dataDir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  await run(path.join(bin, "initdb"), [...made, ...more, "--no-instructions"], options);
}

export interface PostgresServer {
  readonly port: number;
  /** Of a user without special rights, who owns the database. */
  readonly url: string;
  /** Of the superuser. */
  readonly adminUrl: string;
  readonly dataDir: string;
  /** Runs a statement as the superuser; resolves what psql prints, a row a line, columns between "|". */
  sql(statement: string, database?: string): Promise<string>;
  /** Makes an empty database that the user owns; resolves its URL. */
  database(name: string): Promise<string>;
  /** Starts it again after kill(). */
  start(): Promise<void>;
  /** Ends it: in order, or, with SIGQUIT, as a crash does (what was committed durably is recovered). */
  kill(signal?: "SIGINT" | "SIGQUIT"): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

export interface PostgresServerOptions {
  /** Without it a commit waits for no disk: tests of what is stored do not need that. */
  readonly durable?: boolean;
  /** As in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>;
  /** It becomes a standby of that server, which streams to it. */
  readonly standbyOf?: PostgresServer;
  readonly port?: number;
  /** Its write-ahead log lies there, on another disk. */
  readonly walDir?: string;
}

export async function startPostgres(bin: string, given: PostgresServerOptions = {}): Promise<PostgresServer> {
  const { durable = false, settings = {}, standbyOf } = given;
  const folder = mkdtempSync("/tmp/svc-postgres-");
  const dataDir = path.join(folder, "data");
  const user = serverUser();
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid!);
  const options = { ...user, cwd: folder, env: { ...process.env, HOME: folder, LC_ALL: "C" } };
  const port = given.port ?? (await freePort());
  const wanted = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: folder,
    max_connections: "100",
    shared_buffers: "64MB",
    ...(!durable && { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
    ...settings,
  };
  let server: ChildProcess | undefined;
  let log = "";

  const sql = async (statement: string, database = "postgres") => {
    const args = ["-h", folder, "-p", `${port}`, "-U", "postgres", "-d", database, "-qAtX", "-v", "ON_ERROR_STOP=1"];
    const result = await runProcess(path.join(bin, "psql"), args, { env: options.env, input: statement });
    if (result.code !== 0) throw new Error(`psql: ${result.stderr.trim()}`);
    return result.stdout.trim();
  };

  const start = async () => {
    const args = Object.entries(wanted).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = spawn(path.join(bin, "postgres"), ["-D", dataDir, "-p", `${port}`, ...args], {
      ...options,
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      log = (log + text).slice(-20_000);
    });
    server = child;
    const ended = once(child, "exit").then(() => assert.fail(`PostgreSQL did not start:\n${log}`));
    const answers = eventually(() => sql("SELECT 1"), START_MAX_MS);
    ended.catch(() => {}); // It ends at last, when nobody waits any more.
    answers.catch(() => {});
    await Promise.race([answers, ended]);
  };

  const kill = async (signal: "SIGINT" | "SIGQUIT" = "SIGINT") => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    server.kill(signal);
    await ended;
  };

  const stop = async () => {
    await kill("SIGQUIT");
    rmSync(folder, { recursive: true, force: true });
  };

  const urlOf = (name: string, who: string) => `postgres://${who}@127.0.0.1:${port}/${name}`;
  const database = async (name: string) => {
    await sql(`CREATE DATABASE ${name} OWNER svc`);
    return urlOf(name, "svc");
  };

  const parts = { port, url: urlOf("svc", "svc"), adminUrl: urlOf("svc", "postgres"), dataDir, sql, database };
  try {
    if (standbyOf !== undefined) {
      const primary = `host=127.0.0.1 port=${standbyOf.port} user=postgres application_name=standby_${port}`;
      const copy = ["-d", primary, "-D", dataDir, "-R", "-X", "stream", "-c", "fast", "--no-sync"];
      await run(path.join(bin, "pg_basebackup"), copy, options);
      await start();
      return { ...parts, start, kill, stop };
    }
    const from = template(user.uid);
    if (given.walDir !== undefined) await initialize(bin, dataDir, options, "-X", given.walDir);
    else if (from === undefined) await initialize(bin, dataDir, options);
    else await run("cp", ["-a", from, dataDir], options);
    await start();
    await sql("CREATE ROLE svc LOGIN");
    await database("svc");
    return { ...parts, start, kill, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** PostgreSQL refuses to run as root: it runs as nobody then. */
export function serverUser(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid!() !== 0) return {};
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}
