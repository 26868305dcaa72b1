/**
 * The platform's life: open → listen → recover → serve → drain → close. Workers are started by the launcher and
 * outlive a crash of this process; `stop` ends them unless the platform is only replaced.
 */
import { createHash } from "node:crypto";
import { accessSync, chmodSync, constants, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { WorkerPort } from "../control-plane/context.ts";
import { ensureFirstKey } from "../control-plane/keys.ts";
import { SvcError } from "../domain/errors.ts";
import {
  LOG_BACKLOG_MAX_BYTES,
  RESTART_LEASE_GRACE_MS,
  SOCKET_PATH_MAX_BYTES,
  STOP_AWAY_MS,
  STOP_GRACE_MS,
} from "../domain/limits.ts";
import { lackOf, storageFull } from "../domain/storage.ts";
import { VERSION } from "../domain/version.ts";
import { createLog, lineWriter } from "../lib/log.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { fingerprint } from "../lib/self-signed-certificate.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { DATABASE_FILE } from "../store/platform-database.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import { compose } from "./compose.ts";
import type { Config } from "./config.ts";
import { noteVersion } from "./data-version.ts";
import { endLeftGateways, Gateways } from "./gateways.ts";
import { openLinkCertificate } from "./link-certificate.ts";
import { Snapshots } from "./snapshots.ts";
import { HISTORY_FILE } from "./telemetry.ts";

export interface RunningPlatform {
  readonly url: string;
  /** Only at the first start of a data directory. */
  readonly firstKey: string | undefined;
  /** What the machine lacks of what keeps workers apart, in words. */
  readonly missing: readonly string[];
  /**
   * `now` ends running jobs; otherwise they get a grace to finish, which a later call with `now` cuts short. No worker is
   * left either way.
   */
  stop(options: { now: boolean }): Promise<void>;
  /** Resolves why it must end, when another platform has taken its database. */
  readonly lost: Promise<SvcError>;
  /** Copies the databases for the backups that wait for it. */
  snapshot(): void;
  /** Logs a failure that no part of the platform took for its own. */
  defect(error: unknown): void;
}

/** `program`: the words that start svc, for processes of the platform's own. */
export async function runPlatform(config: Config, program: readonly string[] = []): Promise<RunningPlatform> {
  const log = createLog(lineWriter(process.stderr.fd, LOG_BACKLOG_MAX_BYTES), () => new Date());
  // What keeps others out is the data directory. Below it, workers that are users of their own must read their code, whatever
  // umask the platform was started with.
  process.umask(0o022);
  openDataDir(config.dataDir);
  const socketPath = privateSocket(config.dataDir);
  let url = config.publicUrl ?? "";
  let localUrl = "";
  let workerPort: WorkerPort | undefined;
  const urls = { public: () => url, local: () => localUrl, workers: () => workerPort };
  const platform = await compose(config, socketPath, log, urls).catch(cannotStart);
  const {
    storage,
    bucket,
    state,
    logs,
    queue,
    driver,
    containerCalls,
    link,
    pool,
    autoscaler,
    reconcilers,
    gateway,
    telemetry,
    own,
  } = platform;
  const { store, database, postgres, durability } = state;
  const recordFile = path.join(config.dataDir, "platform.json");
  const databases = { [DATABASE_FILE]: database.connection, [HISTORY_FILE]: telemetry.history };
  const snapshots = new Snapshots(config.dataDir, databases, log);
  await endLeftGateways(earlier(recordFile).gateways?.pids ?? []);
  let record: object | undefined;
  let recorded: Promise<void> = Promise.resolve();
  const writeRecord = () => {
    if (record === undefined) return;
    const now = { ...record, ...(gateways && { gateways: { wanted: config.gateways, pids: gateways.pids } }) };
    recorded = recorded.catch(() => {}).then(() => writeFileAtomic(recordFile, JSON.stringify(now)));
    own("writing the platform's record", recorded);
  };
  const gateways =
    config.gateways === 0
      ? undefined
      : new Gateways({
          ...{ config, program, gateway, store, log, own },
          folder: path.dirname(privateSocket(config.dataDir, "gateways")),
          changed: writeRecord,
        });
  try {
    let port = 0;
    const taken = (found: number) => {
      port = found;
      url = config.publicUrl ?? `http://${shownHost(config.host)}:${port}`;
      localUrl = `http://${localHost(config.host)}:${port}`;
    };
    if (gateways === undefined) taken((await gateway.listen(config.host, config.port)).port);
    else await gateways.start(taken);
    await queue.graceLeases(RESTART_LEASE_GRACE_MS);
    await link.listen(socketPath);
    workerPort = config.workerListen && (await listenForWorkers(link, config.workerListen, config));
    const workersDial = workerPort && dialled(workerPort);
    await driver.open();
    const missing = driver.missingIsolation ?? [];
    if (missing.length > 0)
      log.info("workers are kept apart less than SVC_ISOLATION promises", { missing: missing.join(", ") });
    const workersReach = await driver.platformUrl();
    await pool.recover();
    if (isElsewhere(recordFile, workersReach)) link.pull.replaceAll();
    await autoscaler.start();
    for (const reconciler of reconcilers) reconciler.start();
    telemetry.start();
    const firstKey = await ensureFirstKey(store);
    await noteVersion(config.dataDir);
    const service = config.installerEnv.INVOCATION_ID !== undefined && process.ppid === 1;
    const facts = {
      port,
      localUrl,
      database: postgres?.name,
      commits: durability?.words,
      bucket: config.s3 && `${config.s3.name}/${config.s3.prefix}`,
      logs: logs.words,
      snapshots: true,
      service,
      startedAt: Date.now(),
      version: VERSION,
    };
    record = { pid: process.pid, url, workersDial, workersReach, ...facts };
    writeRecord();
    await recorded;
    log.info("the platform listens", { url, workersDial });
    const hurry = new AbortController();
    const end = async () => {
      const graceMs = hurry.signal.aborted ? 0 : STOP_GRACE_MS;
      const endsAnyway = (error: unknown) => log.error("the platform stops without its database", { error });
      // What waits for a database that is away is given up: it is looked at again at the next start.
      const looks = setInterval(() => {
        if (postgres?.away === undefined) return;
        clearInterval(looks);
        storage.close();
        queue.close().catch(endsAnyway);
      }, STOP_AWAY_MS);
      telemetry.endFollowers();
      // Gateways pass on what this one answers: it goes on until they have ended.
      const closing = Promise.all([gateways?.close(graceMs), gateway.close(graceMs)]);
      const hasten = () => {
        Promise.all([gateways?.close(0), gateway.close(0)]).catch((error) =>
          log.error("the connections of callers were not closed", { error }),
        );
      };
      hurry.signal.addEventListener("abort", hasten, { once: true });
      await closing;
      hurry.signal.removeEventListener("abort", hasten);
      autoscaler.stop();
      await Promise.all([telemetry.stop(), ...reconcilers.map((reconciler) => reconciler.stop())]).catch(endsAnyway);
      await pool.stopAll(graceMs, hurry.signal).catch(endsAnyway);
      link.handBackAll();
      await driver.close({ stopAll: true });
      containerCalls.close();
      await link.close();
      storage.close();
      await logs.close();
      await bucket?.watch.stop();
      await snapshots.close();
      // What it has still to write it reads from the queue.
      await telemetry.close();
      clearInterval(looks);
      await queue.close();
      bucket?.bucket.close();
      await state.close();
      record = undefined;
      await recorded.catch(() => {});
      rmSync(recordFile, { force: true });
    };
    let stopping: Promise<void> | undefined;
    const stop = ({ now }: { now: boolean }) => {
      log.info("the platform stops", { now });
      if (now) hurry.abort();
      stopping ??= end();
      return stopping;
    };
    const defect = (error: unknown) => log.error("a defect: nobody expected this failure; please report it", { error });
    return { url, firstKey, missing, lost: state.lost, stop, snapshot: () => snapshots.make(), defect };
  } catch (error) {
    gateways?.kill();
    await gateways?.close(0).catch(() => {});
    containerCalls.close();
    await gateway.close(0).catch(() => {});
    await link.close().catch(() => {});
    storage.close();
    await logs.close();
    await bucket?.watch.stop();
    await telemetry.close();
    await queue.close().catch(() => {});
    await state.close().catch(() => {});
    return cannotStart(error);
  }
}

/** Workers that outlived an earlier platform reached it by another address. Its record stays when it is killed. */
function isElsewhere(recordFile: string, workersReach: string): boolean {
  const { workersReach: before } = earlier(recordFile);
  return before !== undefined && before !== workersReach;
}

/** What a platform that was killed has left. */
function earlier(recordFile: string): { workersReach?: string; gateways?: { pids: readonly number[] } } {
  try {
    return JSON.parse(readFileSync(recordFile, "utf8"));
  } catch {
    return {}; // There is none.
  }
}

/** Says so when that is for want of room. */
function cannotStart(error: unknown): never {
  const lack = lackOf(error);
  if (lack === undefined) throw error;
  const { message, help } = storageFull(lack);
  throw new SvcError("STORAGE_FULL", `The platform cannot start. ${message}`, { help, cause: error });
}

/** Resolves where workers of other machines dial, with the fingerprint they know the platform by. */
async function listenForWorkers(
  link: WorkerLink,
  { host, port }: NonNullable<Config["workerListen"]>,
  { dataDir, workerPublic }: Config,
): Promise<WorkerPort> {
  const certificate = await openLinkCertificate(dataDir);
  const taken = await link.listenTls({ host, port, ...certificate });
  const isAny = host === "0.0.0.0" || host === "::";
  return { host: isAny ? "" : host, port: taken, ...workerPublic, fingerprint: fingerprint(certificate.cert) };
}

function dialled({ host, port, fingerprint }: WorkerPort): string {
  return `tls://${host === "" ? "localhost" : shownHost(host)}:${port}#${fingerprint}`;
}

function openDataDir(dataDir: string): void {
  try {
    makeFolder(dataDir, 0o700);
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    closeToOthers(dataDir);
  } catch (error) {
    throw new SvcError("DATA_DIRECTORY", `The data directory cannot be used: ${(error as Error).message}.`, {
      where: dataDir,
      help: "Choose another with --data-dir or SVC_DATA_DIR.",
      cause: error,
    });
  }
}

/** All that is private lies below it: inputs, results, values of variables, the key that seals them. */
function closeToOthers(dataDir: string): void {
  if ((statSync(dataDir).mode & 0o077) === 0) return;
  try {
    chmodSync(dataDir, 0o700);
  } catch {}
  // Another's folder, or a file system that keeps no modes.
  if ((statSync(dataDir).mode & 0o077) !== 0) {
    throw new Error("other users can look into it, and this user cannot close it to them (chmod 700)");
  }
}

/** In a folder of its own, the only one that workers see beside their code: in the data directory, or where that path is too long for the kernel, in a folder of ours under the temp folder. */
function privateSocket(dataDir: string, folder = "run"): string {
  const near = path.join(dataDir, folder, "platform.sock");
  if (Buffer.byteLength(near) <= SOCKET_PATH_MAX_BYTES) {
    mkdirSync(path.dirname(near), { recursive: true, mode: 0o700 });
    return near;
  }
  // Not userInfo(): an id need not have an account.
  const dir = path.join(
    tmpdir(),
    `svc-${process.getuid?.() ?? "user"}-${createHash("sha256")
      .update(`${folder === "run" ? "" : folder}${dataDir}`)
      .digest("hex")
      .slice(0, 16)}`,
  );
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  chmodSync(dir, 0o700); // Throws when another user made it first.
  return path.join(dir, "platform.sock");
}

/** Where this machine itself reaches a server that listens on `host`. */
function localHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return shownHost(host);
}

function shownHost(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return host.includes(":") ? `[${host}]` : host;
}
