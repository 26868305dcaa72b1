/**
 * The platform's life: open → listen → recover → serve → drain → close. Workers are started by the launcher and
 * outlive a crash of this process; `stop` ends them unless the platform is only replaced.
 */
import { accessSync, chmodSync, constants, readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import type { WorkerPort } from "../control-plane/context.ts";
import { ensureFirstKey } from "../control-plane/keys.ts";
import { SvcError } from "../domain/errors.ts";
import { LOG_BACKLOG_MAX_BYTES, RESTART_LEASE_GRACE_MS, STOP_AWAY_MS, STOP_GRACE_MS } from "../domain/limits.ts";
import { lackOf, refuseSmallFiles, storageFull } from "../domain/storage.ts";
import { VERSION } from "../domain/version.ts";
import { bracketed } from "../lib/host-port.ts";
import { createLog, type Log, lineWriter } from "../lib/log.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { createOwner } from "../lib/own.ts";
import { fileMaxBytes } from "../lib/process-limits.ts";
import { fingerprint } from "../lib/self-signed-certificate.ts";
import { isDamagedError } from "../lib/sqlite.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { DATABASE_FILE, damagedDatabase } from "../store/platform-database.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import { compose } from "./compose.ts";
import type { Config } from "./config.ts";
import { noteVersion } from "./data-version.ts";
import { endLeftGateways, Gateways } from "./gateways.ts";
import { openLinkCertificate } from "./link-certificate.ts";
import { heldAddresses, listenAlone } from "./port.ts";
import { privateSocket } from "./private-socket.ts";
import { Replica } from "./replica.ts";
import type { RunningPlatform } from "./running-platform.ts";
import { Sharing } from "./sharing.ts";
import { Snapshots } from "./snapshots.ts";
import { HISTORY_FILE } from "./telemetry.ts";
import { waitingPlatform } from "./waiting.ts";

/** `program`: the words that start svc, for processes of the platform's own. */
export async function runPlatform(config: Config, program: readonly string[] = []): Promise<RunningPlatform> {
  const log = createLog(lineWriter(process.stderr.fd, LOG_BACKLOG_MAX_BYTES), () => new Date());
  // What keeps others out is the data directory. Below it, workers that are users of their own must read their code, whatever
  // umask the platform was started with.
  process.umask(0o022);
  refuseSmallFiles(fileMaxBytes());
  openDataDir(config.dataDir);
  const at = new Addresses(config);
  if (config.database === undefined) return start(config, program, log, at);
  const statusPath = privateSocket(config.dataDir, "replicas");
  const own = createOwner(log, (error) => error instanceof SvcError);
  const recordFile = recordOf(config);
  const needs = {
    ...{ config, log, own, statusPath },
    url: () => at.url,
    taken: (port: number) => at.taken(port),
    portFree: () => endLeftGateways(earlier(recordFile).gateways?.pids ?? []),
  };
  if (config.database.sharesShards) return start(config, program, log, at, { replica: new Sharing(needs), statusPath });
  const replica = new Replica(needs);
  const started = start(config, program, log, at, { replica, statusPath });
  const first = await Promise.race([started, replica.waits.then(() => undefined)]);
  if (first !== undefined) return first;
  const { workersReach, gateways } = earlier(recordFile);
  const waits = {
    ...at.recorded,
    waits: true,
    startedAt: Date.now(),
    service: isService(config),
    replicas: statusPath,
  };
  await writeFileAtomic(recordFile, JSON.stringify({ ...waits, workersReach, gateways }));
  started.catch(() => rmSync(recordFile, { force: true }));
  return waitingPlatform({ url: at.url, replica, started, log });
}

/** Where the platform is reached, once it listens. */
class Addresses {
  readonly #config: Config;
  port = 0;
  url: string;
  localUrl = "";
  workerPort: WorkerPort | undefined;

  constructor(config: Config) {
    this.#config = config;
    this.url = config.publicUrl ?? "";
  }

  taken(port: number): void {
    const { host, publicUrl } = this.#config;
    this.port = port;
    this.url = publicUrl ?? `http://${shownHost(host)}:${port}`;
    this.localUrl = `http://${localHost(host)}:${port}`;
  }

  get recorded() {
    const { url, port, localUrl } = this;
    return { pid: process.pid, url, port, localUrl, version: VERSION };
  }
}

/** `several`: what it needs where others may have the same database; it has it when this goes on. */
async function start(
  config: Config,
  program: readonly string[],
  log: Log,
  at: Addresses,
  several?: { readonly replica: Replica | Sharing; readonly statusPath: string },
): Promise<RunningPlatform> {
  const socketPath = privateSocket(config.dataDir);
  const urls = {
    public: () => at.url,
    local: () => at.localUrl,
    workers: () => at.workerPort,
    held: () => heldAddresses(config.host, at.port),
  };
  const replica = several?.replica;
  const sharing = replica instanceof Sharing ? replica : undefined;
  const one = replica instanceof Replica ? replica : undefined;
  const platform = await compose(config, socketPath, log, urls, replica).catch((error) =>
    cannotStart(error, config.dataDir),
  );
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
    ahead,
    pods,
    autoscaler,
    reconcilers,
    gateway,
    backing,
    telemetry,
    own,
    volumesDisk,
  } = platform;
  const { store, database, postgres, durability } = state;
  const recordFile = recordOf(config);
  const databases = { [DATABASE_FILE]: database.connection, [HISTORY_FILE]: telemetry.history };
  const snapshots = new Snapshots(config.dataDir, databases, log);
  await endLeftGateways(earlier(recordFile).gateways?.pids ?? []);
  let record: object | undefined;
  let recorded: Promise<void> = Promise.resolve();
  const writeRecord = () => {
    if (record === undefined) return;
    const now = {
      ...record,
      ...(gateways && { gateways: { wanted: config.gateways, pids: gateways.pids } }),
      ...(pods && { pools: pods.view }),
    };
    recorded = recorded.catch(() => {}).then(() => writeFileAtomic(recordFile, JSON.stringify(now)));
    own("writing the platform's record", recorded);
  };
  const gateways =
    config.gateways === 0
      ? undefined
      : new Gateways({
          ...{ config, program, gateway, store, log, own },
          isSure: () => replica?.isSure ?? true,
          folder: path.dirname(privateSocket(config.dataDir, "gateways")),
          changed: writeRecord,
        });
  /** Nothing is started or looked after by itself any more. */
  const endRounds = async () => {
    autoscaler.stop();
    ahead?.close();
    await Promise.all([telemetry.stop(), ...reconcilers.map((reconciler) => reconciler.stop())]);
  };
  try {
    if (gateways !== undefined) {
      const port = await one?.port();
      await gateways.start((taken) => at.taken(taken), port);
      if (port !== undefined) gateway.stopListening();
    } else if (replica !== undefined) await replica.listen();
    else at.taken((await listenAlone(gateway, config.host, config.port)).port);
    await queue.graceLeases(RESTART_LEASE_GRACE_MS);
    await sharing?.shards.settled();
    await link.listen(socketPath);
    at.workerPort = config.workerListen && (await listenForWorkers(link, config.workerListen, config));
    const workersDial = at.workerPort && dialled(at.workerPort);
    await driver.open();
    const missing = driver.missingIsolation ?? [];
    if (missing.length > 0)
      log.info("workers are kept apart less than SVC_ISOLATION promises", { missing: missing.join(", ") });
    const workersReach = await driver.platformUrl();
    await pool.recover();
    if (isElsewhere(recordFile, workersReach)) link.pull.replaceAll();
    await autoscaler.start();
    platform.follow();
    for (const reconciler of reconcilers) reconciler.start();
    telemetry.start();
    const makesKey = sharing === undefined || sharing.isFirst();
    const firstKey = makesKey ? await ensureFirstKey(store, Date.now, config.firstKeyFile) : undefined;
    await noteVersion(config.dataDir);
    await one?.serve(backing, store);
    await sharing?.serve(backing, store, { caughtUp: state.caughtUp!, makeReady: (wishes) => ahead!.prepare(wishes) });
    const facts = {
      database: postgres?.name,
      commits: durability?.words,
      bucket: config.s3 && `${config.s3.name}/${config.s3.prefix}`,
      logs: logs.words,
      replicas: several?.statusPath,
      snapshots: true,
      service: isService(config),
      startedAt: Date.now(),
    };
    record = { ...at.recorded, workersDial, workersReach, ...facts };
    writeRecord();
    await recorded;
    if (pods !== undefined) pods.viewChanged = writeRecord;
    log.info("the platform listens", { url: at.url, workersDial });
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
      const callersLeave = async () => {
        const restMs = hurry.signal.aborted ? 0 : graceMs;
        // Gateways pass on what this one answers: it goes on until they have ended.
        const closing = Promise.all([gateways?.close(restMs), gateway.close(restMs)]);
        const hasten = () => {
          Promise.all([gateways?.close(0), gateway.close(0)]).catch((error) =>
            log.error("the connections of callers were not closed", { error }),
          );
        };
        hurry.signal.addEventListener("abort", hasten, { once: true });
        await closing;
        hurry.signal.removeEventListener("abort", hasten);
      };
      // Where another waits, callers stay until that answers them.
      const handsOver = gateways === undefined && graceMs > 0 && replica?.hasOthers === true;
      if (handsOver) replica?.leave();
      else await callersLeave();
      // What has not gone to another yet is served as ever.
      if (handsOver) await sharing?.giveShards(hurry.signal);
      await endRounds().catch(endsAnyway);
      await pool.stopAll(graceMs, hurry.signal).catch(endsAnyway);
      if (handsOver) await sharing?.handOver(callersLeave, hurry.signal);
      one?.release();
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
      // Nothing that is left to say is worth a wait for it: others see by themselves that this one has gone.
      if (postgres?.away !== undefined) postgres.abandon();
      await queue.close();
      bucket?.bucket.close();
      if (handsOver) await one?.handOver(callersLeave, hurry.signal);
      await replica?.close();
      await state.close();
      record = undefined;
      await recorded.catch(() => {});
      rmSync(recordFile, { force: true });
      await volumesDisk.close();
    };
    let stopping: Promise<void> | undefined;
    const stop = ({ now }: { now: boolean }) => {
      log.info("the platform stops", { now });
      if (now) hurry.abort();
      stopping ??= end();
      return stopping;
    };
    // Its callers are answered, where another can: who has the endpoints knows nothing of them.
    const lost = state.lost.then(async (error) => {
      if (error.code === "INTERNAL") defect(error.cause);
      if (gateways === undefined && (await sharing?.lostRow())) await stop({ now: false });
      return error;
    });
    const defect = (error: unknown) => log.error("a defect: nobody expected this failure; please report it", { error });
    return { url: at.url, firstKey, missing, lost, stop, snapshot: () => snapshots.make(), defect };
  } catch (error) {
    await endRounds().catch(() => {});
    // Workers of an earlier platform go on, for a later one.
    const workers = await driver.list().catch(() => undefined);
    await driver.close({ stopAll: workers?.length === 0 }).catch(() => {});
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
    await replica?.close().catch(() => {});
    await state.close().catch(() => {});
    await volumesDisk.close();
    return cannotStart(error, config.dataDir);
  }
}

function recordOf({ dataDir }: Config): string {
  return path.join(dataDir, "platform.json");
}

/** A service manager started it, and would start it again. */
function isService({ installerEnv }: Config): boolean {
  return installerEnv.INVOCATION_ID !== undefined && process.ppid === 1;
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

/** Says so when that is for want of room, or of a whole database. */
function cannotStart(error: unknown, dataDir: string): never {
  if (isDamagedError(error)) throw damagedDatabase(error, dataDir);
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

/** Where this machine itself reaches a server that listens on `host`. */
function localHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  if (host === "::") return "[::1]";
  return shownHost(host);
}

function shownHost(host: string): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return bracketed(host);
}
