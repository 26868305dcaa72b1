/** S3 servers of tests: Versity's S3 gateway over a folder of its own, built once from its Go module and kept in a cache folder. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { CACHE } from "../bench/processes.ts";
import type { BucketSettings } from "../src/s3/bucket-settings.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type Found, goBuild } from "./go-build.ts";

const VERSION = "1.8.0";
const KEYS = { id: "tester", secret: "the tester's secret" };

/** The server's program, or why there is none. */
export async function findS3(): Promise<Found> {
  const program = path.join(CACHE, `versitygw-${VERSION}`, "versitygw");
  if (existsSync(program)) return { program };
  const what = `github.com/versity/versitygw/cmd/versitygw@v${VERSION}`;
  const args = () => ["install", "-p", "2", "-ldflags", "-s -w", what];
  return goBuild({ name: "the S3 server of the tests", program, args });
}

export interface S3Server {
  readonly endpoint: string;
  readonly keys: { readonly id: string; readonly secret: string };
  /** Of an empty bucket that is there. */
  readonly settings: BucketSettings;
  /** The same as the platform's environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Where a file lies for each object: <folder>/<key>. */
  readonly folder: string;
  /** Starts it again after kill(); nothing when it runs. */
  start(): Promise<void>;
  /** SIGSTOP: it takes connections and answers nothing, until SIGCONT. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
  kill(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

export async function startS3(program: string): Promise<S3Server> {
  // Most files that import this start none, and it is half of what they load.
  const { CreateBucketCommand, S3Client } = await import("@aws-sdk/client-s3");
  const dir = mkdtempSync(path.join(tmpdir(), "svc-s3-"));
  const root = path.join(dir, "objects");
  const about = path.join(dir, "about");
  mkdirSync(root);
  mkdirSync(about);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const settings = { name: "layers", endpoint, region: undefined, prefix: "svc/", pathStyle: true, keys: KEYS };
  let server: ChildProcess | undefined;

  const isRunning = () => server !== undefined && server.exitCode === null && server.signalCode === null;
  const start = async () => {
    if (isRunning()) return;
    server = spawn(program, ["--quiet", "--port", `127.0.0.1:${port}`, "posix", "--sidecar", about, root], {
      env: { ROOT_ACCESS_KEY_ID: KEYS.id, ROOT_SECRET_ACCESS_KEY: KEYS.secret },
      stdio: ["ignore", "ignore", "inherit"],
    });
    // Any answer will do: it listens.
    await eventually(() => fetch(endpoint));
  };
  const kill = async () => {
    if (!isRunning()) return;
    const ended = once(server!, "exit");
    server!.kill("SIGKILL");
    await ended;
  };
  const stop = async () => {
    await kill();
    rmSync(dir, { recursive: true, force: true });
  };
  const env = bucketEnv(settings);
  try {
    await start();
    const credentials = { accessKeyId: KEYS.id, secretAccessKey: KEYS.secret };
    const client = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials });
    await client.send(new CreateBucketCommand({ Bucket: settings.name }));
    client.destroy();
  } catch (error) {
    await stop();
    throw error;
  }
  const folder = path.join(root, settings.name, settings.prefix);
  const signal = (name: "SIGSTOP" | "SIGCONT") => void server!.kill(name);
  return { endpoint, keys: KEYS, settings, env, folder, start, signal, kill, stop };
}

/** The settings as a platform's environment. */
export function bucketEnv({ name, endpoint, prefix, keys }: BucketSettings): Record<string, string> {
  return {
    SVC_S3_BUCKET: name,
    SVC_S3_ENDPOINT: endpoint!,
    SVC_S3_PREFIX: prefix,
    SVC_S3_ACCESS_KEY_ID: keys!.id,
    SVC_S3_SECRET_ACCESS_KEY: keys!.secret,
  };
}
