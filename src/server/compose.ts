/**
 * The only place that says which implementation stands behind which interface, and who nudges whom.
 *
 *   gateway ──enqueue──▶ queue ──jobQueued──▶ autoscaler ──decision──▶ worker pool ──▶ driver ──▶ workers
 *      └──forward──▶ worker link ◀──────────────── dial in, prove themselves, take work ────────────┘
 */
import { randomBytes } from "node:crypto";
import { Autoscaler } from "../autoscaler/autoscaler.ts";
import type { WorkerPort } from "../control-plane/context.ts";
import { type ErrorCode, SvcError } from "../domain/errors.ts";
import { ALONE } from "../domain/own-endpoints.ts";
import { storageFull, storageNotice } from "../domain/storage.ts";
import type { BootFailure, HeldAddress } from "../domain/worker-protocol.ts";
import { CapacityLedger, findGpus } from "../drivers/capacity.ts";
import type { DriverHooks } from "../drivers/worker-driver.ts";
import { PeerCalls } from "../gateway/peer-calls.ts";
import type { Gateway } from "../gateway/server.ts";
import type { Log } from "../lib/log.ts";
import { createOwner } from "../lib/own.ts";
import { timeOrderedUuid } from "../lib/uuid.ts";
import { SecretValues } from "../logs/secret-values.ts";
import { createEndpointCache, withWorkerTokens } from "../store/caches.ts";
import { createKeyChecker } from "../store/key-check.ts";
import { MemoryLogins } from "../store/memory-logins.ts";
import { PostgresLogins } from "../store/postgres-logins.ts";
import { Schedules } from "../upkeep/schedules.ts";
import { jobLines } from "../worker-link/pull/job-lines.ts";
import { WorkerLink } from "../worker-link/worker-link.ts";
import { BootRecord } from "../workers/boot-record.ts";
import { BrokenCode } from "../workers/broken-code.ts";
import { DecisionLog } from "../workers/decision-log.ts";
import { Images } from "../workers/images.ts";
import { WorkerPool } from "../workers/worker-pool.ts";
import { WorkersAhead } from "../workers/workers-ahead.ts";
import { bucketNotices, layerUrls, openArtifacts, openBucket } from "./artifacts.ts";
import { AskedPlatforms } from "./asked-platforms.ts";
import type { Config } from "./config.ts";
import { ContainerCalls } from "./container-calls.ts";
import { DiskWatch } from "./disk-watch.ts";
import { makeDriver } from "./driver.ts";
import { directFront } from "./front.ts";
import { makeHosts } from "./hosts.ts";
import { openLogs } from "./logs.ts";
import { makeManagement } from "./management.ts";
import { connectNudges, followShards } from "./nudges.ts";
import { openQueue } from "./open-queue.ts";
import { ownBacking } from "./own-backing.ts";
import { Pods } from "./pods.ts";
import { registryLogin } from "./registry-login.ts";
import type { Replica } from "./replica.ts";
import { derivedKeys } from "./secret-keys.ts";
import { ofFirst, Sharing } from "./sharing.ts";
import { makeShown } from "./shown.ts";
import { databaseNotices, openState } from "./state.ts";
import { openTelemetry, type Telemetry } from "./telemetry.ts";
import { makeUpkeep } from "./upkeep.ts";
import { knownMark, openVolumesDisk, Volumes } from "./volumes.ts";
import { makeWebhooks } from "./webhooks.ts";
import { WorkerWords } from "./worker-words.ts";

/** Base URLs of the platform's HTTP side, known once it listens. */
export interface PlatformUrls {
  /** As callers reach it. */
  readonly public: () => string;
  /** As processes of this machine reach it. */
  readonly local: () => string;
  /** The port for workers of other machines, if there is one. */
  readonly workers: () => WorkerPort | undefined;
  /** Addresses of its port, which its launcher holds. */
  readonly held: () => readonly HeldAddress[];
}

const SAID_ELSEWHERE = new Set<ErrorCode>(["STORAGE_FULL", "DATABASE_AWAY", "VOLUMES_AWAY", "SHUTTING_DOWN", "MOVED"]);

/** What the watch over a disk, or the way to the database, has said once, and what a platform that stops, or has it no more, leaves to others. */
function isSaidElsewhere(error: unknown): boolean {
  return error instanceof SvcError && SAID_ELSEWHERE.has(error.code);
}

/** `replica`: takes calls for other platforms on the database, or while another has it. */
export async function compose(
  config: Config,
  socketPath: string,
  log: Log,
  urls: PlatformUrls,
  replica?: Replica | Sharing,
) {
  const clock = Date.now;
  const now = () => performance.now();
  const { dataDir } = config;
  const storage = new DiskWatch(dataDir, {
    began: (lack, cause) => {
      log.error(`${storageFull(lack).message} Writes are refused, what runs goes on.`, { cause });
      if (lack === "descriptors") gateway.closeUnused();
    },
    ended: (lackedMs) => log.info("storing works again", { lackedMs: Math.round(lackedMs) }),
    tryDatabase: async () => state.postgres?.tryRoom(),
  });
  const own = createOwner(log, isSaidElsewhere);
  const lost = Promise.withResolvers<SvcError>();
  const state = await openState({
    ...{ config, log, replica },
    lost: lost.resolve,
    full: (error) => storage.noticed(error),
  });
  const { database, postgres, secretKeys, seal } = state;
  const sharing = replica instanceof Sharing ? replica : undefined;
  database.onFailure = (error) => storage.noticed(error);
  const store = withWorkerTokens(state.store);
  const bounds = {
    queuedMax: config.queueLimit,
    bodiesKeptMax: config.bodiesLimitBytes,
    failedRetentionMs: config.retention.failedMs,
  };
  const inUse = await openBucket(config, log);
  const queue = await openQueue(config, {
    ...{ database, postgres, bucket: inUse?.bucket, clock, bounds, storage, sharing },
    lost: lost.resolve,
    own: (work) => own("what the queue does by itself", work),
  });
  const { isMine, isLeaving } = sharing?.shards ?? ALONE;
  const artifacts = await openArtifacts(config, inUse?.bucket, clock);
  const endpoints = createEndpointCache(store);
  const isSure = () => replica?.isSure ?? true;
  const keys = createKeyChecker(store, clock, isSure);
  const secrets = new SecretValues(store, seal);
  await secrets.recall();
  const failed = (what: string) => (error: unknown) => own(what, Promise.reject(error));
  const reconcilerFailed = (name: string, error: unknown) => failed(`the reconciler ${name}`)(error);
  const mask = (id: string, text: string) => secrets.mask(id, text);
  const asked = sharing && new AskedPlatforms(sharing.route, own);
  const said = { mask, log, onError: reconcilerFailed };
  const logs = openLogs({ config, postgres, bucket: inUse?.bucket, asked, clock, now, ...said });

  const rowOf = async (workerId: string) => ahead?.find(workerId) ?? store.workers.find(workerId);
  const words = new WorkerWords({ rowOf, endpoints, secrets, logs: logs.store });
  const bootFailed = async (workerId: string, failure: BootFailure) => {
    const error = await words.bootFailed(workerId, failure);
    if (error !== undefined && !ahead?.failed(workerId)) await pool.bootFailed(workerId, error);
  };

  const ledger = new CapacityLedger(config, await findGpus(config.installerEnv.PATH));
  const containerCalls = new ContainerCalls(() => gateway.server, urls.local);
  const hooks: DriverHooks = {
    bootFailed: (workerId, failure) => pool.bootFailing(workerId, bootFailed(workerId, failure as BootFailure)),
    log: (id, stream, text) => own("logging what a worker printed", words.printed(id, stream, [{ text }])),
    programPrinted: (id, stream, text) =>
      own("logging what a worker printed", words.printed(id, stream, jobLines(text))),
    started: ({ worker, pid, how, reason = "", limits = "none", isolation = "" }) => {
      log.info("worker started", { worker, pid, how, reason: reason || undefined, limits, isolation });
      pool.workerStarted(worker, { how, reason, limits, isolation });
    },
    available: () => pool.driverAvailable(),
    told: (line, facts) => log.error(line, facts),
  };
  const loginOf = (endpointId: string) => registryLogin(store, seal, endpointId);
  const volumesDisk = openVolumesDisk(config.volumesDir, (line) => log.error(line), knownMark(config));
  const local = makeDriver({
    ...{ config, socketPath, volumesDisk, containerCalls, artifacts, ledger, loginOf, hooks },
    platformUrl: urls.local,
    heldAddresses: urls.held,
  });
  const ticketKeys = derivedKeys(secretKeys, "layer tickets");
  const pods = Pods.open({
    ...{ config, store, endpoints, clock, log },
    waitingForRoom: () => pool.waitingForRoom,
    makeVolume: (volume) => local.makeVolume(volume),
    fingerprint: () => urls.workers()?.fingerprint,
    onError: failed("looking after Pods"),
  });
  const { driver, fleet, doors, view } = await makeHosts({
    ...{ pods, config, volumesDisk, store, artifacts, ledger, local, hooks, loginOf, clock, log },
    ticketKey: ticketKeys[0],
    layerUrl: layerUrls(config, inUse?.bucket),
    link: () => link,
    pool: () => pool,
    ...{ sharing, workerPort: urls.workers, onError: failed("draining a host") },
  });

  const images = new Images({ store, driver, clock, now, settled: (endpointId) => autoscaler.wake(endpointId) });
  const ahead =
    sharing &&
    new WorkersAhead({
      ...{ store, driver, isMine, images, clock },
      envOf: (endpoint) => secrets.envOf(endpoint),
      isFull: (volume) => volumes.isFull(volume),
      link: { expectPull: (workerId) => link.expectPull(workerId) },
      isCrowded: () => pool.room.isContended,
      adopted: (workerId) => link.adopted(workerId),
      log: (line) => log.info(line),
      onError: failed("starting workers ahead"),
    });
  const link = new WorkerLink({
    ...{ store, endpoints, isMine, queue },
    hooks: {
      workerReady: (worker) =>
        own(
          "noting a ready worker",
          storage.keep(() => pool.workerReady(worker)).then(() => telemetry.workerReady(worker)),
        ),
      workerIdle: () => pool.workerIdle(),
      workerGone: (_workerId, endpointId) => {
        autoscaler.wake(endpointId);
        telemetry.workerGone(endpointId);
      },
      bootFailed: (workerId, failure) => pool.bootFailing(workerId, bootFailed(workerId, failure)),
      workerStuck: (workerId, reason) => own("killing a stuck worker", pool.kill(workerId, reason)),
      workerLeaves: (workerId, reason) => own("stopping a worker", pool.stop(workerId, reason, false)),
      workerEnds: (workerId, graceMs) => own("stopping a worker", driver.stop(workerId, graceMs)),
      workerReplaced: (id) =>
        store.workers.update(id, { state: "DRAINING", reason: "its code was replaced while it started" }),
      requestWaiting: (endpointId) => {
        autoscaler.wake(endpointId);
        callerWaits(endpointId);
      },
      log: (line) => logs.store.append(line),
      jobHandedOut: (jobId) => telemetry.traces?.jobHandedOut(jobId),
      health: (endpointId) => pool.health(endpointId),
      platformUrl: () => driver.platformUrl(),
      aliveWorkers: () => driver.vouched(),
      failed: (what, error) => failed(what)(error),
      ahead,
      launcherConnected: (secret, connection) => driver.attachLauncher(secret, connection),
      ...doors,
    },
  });

  const peers = new PeerCalls();
  const boots = new BootRecord(now);
  const broken = new BrokenCode({ queue, endpoints, boots, link });
  const callerWaits = (endpointId: string) => {
    const told = broken.callerWaits(endpointId);
    if (told !== undefined) own("telling who waits", told);
  };
  const volumes = new Volumes({
    disk: volumesDisk,
    store,
    make: (volume) => driver.makeVolume(volume),
    clock,
    told: (line) => log.info(line),
    onError: reconcilerFailed,
  });
  const pool = new WorkerPool({
    decisions: new DecisionLog({
      recentDecisions: (endpointId, count) => telemetry.recentDecisions(endpointId, count),
      decided: (endpointId, decision) => telemetry.decided(endpointId, decision),
    }),
    store,
    endpoints,
    isMine,
    isLeaving,
    driver,
    images,
    ahead,
    boots,
    envOf: (endpoint) => secrets.envOf(endpoint),
    isFull: (volume) => volumes.isFull(volume),
    broken,
    link,
    clock,
    now,
    peersWait: (endpointId) => peers.waitFor(endpointId),
    wake: (endpointId) => autoscaler.wake(endpointId),
    workerEnded: (endpointId) => {
      autoscaler.wake(endpointId);
      upkeep.removed.nudge(); // It may have been the last of a removed endpoint.
    },
    log: (line) => log.info(line),
    onError: failed("looking after workers"),
  });
  const autoscaler: Autoscaler = new Autoscaler({
    ...{ store, endpoints, isMine, queue, clock, now },
    adopt: (endpointId) => ahead?.adopt((id) => id === endpointId),
    sampleLink: (endpointId) => link.sample(endpointId),
    // A worker's row could not be written.
    mayStart: (endpoint) => storage.lack === undefined && postgres?.away === undefined && pool.mayStart(endpoint),
    mustProve: (endpoint) => pool.mustProve(endpoint),
    isRefused: pool.isRefused,
    apply: (endpoint, decision) => pool.apply(endpoint, decision),
    onError: failed("the autoscaler"),
  });

  const telemetry: Telemetry = await openTelemetry({
    config,
    store,
    endpoints,
    queue,
    link,
    driver,
    hostsView: view,
    workers: pool,
    awake: () => autoscaler.awake,
    clock,
    now,
    log,
    onError: failed("recording what happens"),
  });
  const { shown, managed } = makeShown({ sharing, asked, queue, pool, link, logs, telemetry });
  const { webhooks, alerts } = await makeWebhooks({
    ...{ config, store, clock, log, machine: telemetry.machine },
    ...shown,
    queue: shown.jobs,
    oldestWaitMs: async (endpointId) => (await shown.load(endpointId)).oldestWaitMs,
    publicUrl: urls.public,
    onError: reconcilerFailed,
  });
  const schedules = new Schedules({
    store,
    isMine,
    queue,
    clock,
    newId: () => timeOrderedUuid(),
    retentionMs: config.retention.runMs,
    onError: reconcilerFailed,
  });
  const upkeep = makeUpkeep({
    store,
    isMine,
    queue,
    pool,
    health: async (endpointId) => shown.workers.health(endpointId),
    isFirst: sharing?.isFirst ?? (() => true),
    artifacts,
    files: driver,
    images,
    clock,
    keptByEndpoint: [queue, logs.store, telemetry.series, telemetry.records],
    onError: reconcilerFailed,
  });
  const ofOne = [alerts, ...(pods === undefined ? [] : [pods])].map((one) => ofFirst(sharing, one));
  const reconcilers = [volumes, webhooks, ...ofOne, schedules, ...logs.upkeep, ...upkeep.all];

  const parts = {
    ...{ storage, store, queue, link, pool, ahead, autoscaler, upkeep, webhooks, schedules, volumes, secrets },
    ...{ callerWaits, own, logs: logs.store },
  };
  connectNudges(parts);

  const management = makeManagement({
    ...{ config, store, artifacts, keys: sharing?.keys ?? keys, driver, seal, ticketKeys, clock, now, own, log },
    signingKey: derivedKeys(secretKeys, "signed urls")[0],
    hosts: view,
    workerPort: urls.workers,
    ...telemetry,
    ...shown,
    fleet,
    logins:
      postgres === undefined ? new MemoryLogins(now, randomBytes) : new PostgresLogins(postgres, seal, randomBytes),
    volumes: volumes.store,
    volumesChanged: () => volumes.changed(),
    testAlert: (alert) => alerts.test(alert),
    degraded: () => [
      ...(storage.lack === undefined ? [] : [storageFull(storage.lack).message]),
      ...(postgres?.away === undefined ? [] : ["The database cannot be reached: nothing new can be stored."]),
      ...(inUse?.watch.trouble === undefined ? [] : ["The bucket cannot be used: deploys fail."]),
    ],
    notices: () => [
      ...(storage.lack === undefined ? [] : [storageNotice(storage.lack)]),
      ...databaseNotices(postgres),
      ...bucketNotices(inUse),
      ...volumes.notices,
      ...(pods?.notices ?? []),
    ],
    publicUrl: urls.public,
  });
  const backing = ownBacking({
    ...{ config, store, queue, endpoints, keys, isSure, link, peers, telemetry, clock, now },
    workers: pool,
    fallback: management,
    managed,
  });
  const acceptFailed = (error: Error) => {
    if (storage.noticed(error) === undefined) log.error("a connection could not be accepted", { error });
  };
  const gateway: Gateway = replica?.gateway ?? directFront({ config, secretKeys, log, own, acceptFailed }, backing);
  return {
    storage,
    own,
    bucket: inUse,
    volumesDisk,
    state: { ...state, store, lost: lost.promise },
    logs,
    queue,
    driver,
    containerCalls,
    link,
    ...{ pool, ahead },
    pods,
    autoscaler,
    reconcilers,
    gateway,
    backing,
    telemetry,
    /** Workers follow the endpoints that this platform has from now on. */
    follow: () => sharing && followShards(sharing.shards, parts),
  };
}
