/** Several platforms on one PostgreSQL and one bucket, each a process that is stopped, killed, and started again, also in another version. */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { shardOf } from "../../src/queue/postgres/ownership.ts";
import { type PlatformProcess, startPlatformProcess } from "../e2e/platform-process.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { removeFolder } from "../remove-folder.ts";
import { findS3, startS3 } from "../s3.ts";
import { deploy, ENDPOINTS, endpointPaths } from "./deploying.ts";

const TAKEN_MAX_MS = 120_000;

/** Why there are none, or false. */
export async function lacksServers(): Promise<string | false> {
  const [postgres, s3] = [await findPostgres(), await findS3()];
  if ("missing" in postgres) return postgres.missing;
  return "missing" in s3 ? s3.missing : false;
}

export interface PlatformsOptions {
  readonly count: number;
  readonly env?: Readonly<Record<string, string>>;
  readonly durable?: boolean;
  readonly onLogLine?: (n: number, line: string) => void;
}

export class Platforms {
  readonly postgres: PostgresServer;
  readonly dir: string;
  readonly ports: readonly number[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #stopServers: () => Promise<void>;
  readonly #running: (PlatformProcess | undefined)[] = [];
  readonly #onLogLine: (n: number, line: string) => void;
  key = "";

  private constructor(
    postgres: PostgresServer,
    ports: readonly number[],
    env: Readonly<Record<string, string>>,
    stopServers: () => Promise<void>,
    onLogLine: PlatformsOptions["onLogLine"] = () => {},
  ) {
    this.postgres = postgres;
    this.dir = mkdtempSync(path.join(tmpdir(), "svc-platforms-"));
    this.ports = ports;
    this.#env = env;
    this.#stopServers = stopServers;
    this.#onLogLine = onLogLine;
  }

  /** The first has the database. */
  static async start({ count, env = {}, durable = false, onLogLine }: PlatformsOptions): Promise<Platforms> {
    const [{ bin }, { program }] = [(await findPostgres()) as { bin: string }, (await findS3()) as { program: string }];
    const postgres = await startPostgres(bin, { durable });
    const s3 = await startS3(program);
    const stop = async () => {
      await Promise.all([postgres.stop(), s3.stop()]);
    };
    const ports = await Promise.all(Array.from({ length: count }, () => freePort()));
    const all = { SVC_DATABASE_URL: postgres.url, ...s3.env, ...env };
    const platforms = new Platforms(postgres, ports, all, stop, onLogLine);
    try {
      for (const n of ports.keys()) await platforms.launch(n);
      return platforms;
    } catch (error) {
      await platforms.close();
      throw error;
    }
  }

  /** Resolves when it has the database, or takes calls for another. */
  async launch(n: number, program = PROGRAM): Promise<void> {
    const dataDir = this.dataDir(n);
    const secret = path.join(this.dataDir(0), "secret.key");
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    if (n > 0 && !existsSync(path.join(dataDir, "secret.key"))) copyFileSync(secret, path.join(dataDir, "secret.key"));
    const own = { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, SVC_TEST_PROGRAM: program };
    const platform = await startPlatformProcess({
      dataDir,
      env: { ...own, ...this.#env },
      port: String(this.ports[n]),
      ownGroup: true,
      onLogLine: (line) => this.#onLogLine(n, line),
    });
    this.#running[n] = platform;
    this.key ||= platform.firstKey ?? "";
    await eventually(async () => {
      const { status } = await fetch(`${this.url(n)}/readyz`);
      if (status !== 200) throw new Error(`platform ${n} is not ready: ${status}`);
    }, TAKEN_MAX_MS);
  }

  dataDir(n: number): string {
    return path.join(this.dir, `data-${n}`);
  }

  url(n: number): string {
    return `http://127.0.0.1:${this.ports[n]}`;
  }

  pid(n: number): number {
    return this.#running[n]!.pid;
  }

  /** SIGKILL: its workers live on. SIGTERM: in order. Resolves when it has ended. */
  async end(n: number, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    await this.#running[n]!.end(signal);
  }

  /** Resolves when it has ended by itself. */
  async ended(n: number): Promise<void> {
    await eventually(() => {
      const { pid } = this.#running[n]!;
      if (existsSync(`/proc/${pid}`)) throw new Error(`platform ${n} goes on`);
    }, TAKEN_MAX_MS);
  }

  /** The one that has the database, or this endpoint where they share them; undefined while none has it that is known. */
  async owner(endpointId?: string): Promise<number | undefined> {
    const first = "SELECT r.url FROM platform_owner o JOIN platform_replicas r USING (id)";
    const ofShard = (shard: number) =>
      `SELECT r.url FROM queue_shards s JOIN platform_replicas r ON r.id = s.owner WHERE s.shard = ${shard}`;
    const url = await this.postgres.sql(endpointId === undefined ? first : ofShard(shardOf(endpointId)), "svc");
    const n = this.ports.findIndex((port) => url.endsWith(`:${port}`));
    return n < 0 ? undefined : n;
  }

  /** The same, when one has it. */
  async knownOwner(endpointId?: string): Promise<number> {
    return eventually(async () => {
      const owner = await this.owner(endpointId);
      if (owner === undefined) throw new Error("no platform has it");
      return owner;
    }, TAKEN_MAX_MS);
  }

  /** Through any address that leads to them. Resolves paths by the endpoints' names. */
  async deploy(files: Readonly<Record<string, string>>, url = this.url(0)): Promise<Record<string, string>> {
    const { code, stderr } = await deploy({ url, key: this.key, dir: this.dir }, files);
    if (code !== 0) throw new Error(stderr);
    const answer = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
      body: JSON.stringify({ query: ENDPOINTS }),
    });
    return endpointPaths(await answer.json());
  }

  async close(): Promise<void> {
    for (const platform of this.#running) await platform?.end("SIGQUIT");
    await this.#stopServers();
    await removeFolder(this.dir);
  }
}
