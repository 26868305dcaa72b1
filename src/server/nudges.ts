/** Who is told of what: changes of the store, of jobs, and of what this platform has of the endpoints. */
import { setTimeout as pause } from "node:timers/promises";
import { attemptLine } from "../domain/job.ts";
import { SHARD_POLL_MS, SHARD_SHORT_JOBS_MS, STOP_GRACE_MS } from "../domain/limits.ts";
import type { AheadWish } from "../domain/worker.ts";
import type { Own } from "../lib/own.ts";
import type { LogStore } from "../logs/log-store.ts";
import type { SecretValues } from "../logs/secret-values.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { WorkersAhead } from "../workers/workers-ahead.ts";
import type { DiskWatch } from "./disk-watch.ts";
import type { OwnShards } from "./own-shards.ts";
import type { makeUpkeep } from "./upkeep.ts";
import type { Volumes } from "./volumes.ts";

interface Parts {
  readonly storage: DiskWatch;
  readonly store: Store;
  readonly queue: JobQueue;
  readonly link: WorkerLink;
  readonly pool: WorkerPool;
  /** Undefined: no other platform gives this one anything. */
  readonly ahead: WorkersAhead | undefined;
  readonly autoscaler: { readonly awake: Iterable<string>; wake(endpointId: string): void; lookAtAll(): Promise<void> };
  readonly upkeep: ReturnType<typeof makeUpkeep>;
  readonly webhooks: { nudge(): void };
  readonly schedules: { nudge(): void };
  readonly volumes: Pick<Volumes, "readLimits">;
  readonly logs: LogStore;
  readonly secrets: Pick<SecretValues, "forget">;
  /** A caller may wait for code that cannot start. */
  readonly callerWaits: (endpointId: string) => void;
  readonly own: Own;
}

export function connectNudges({ storage, store, queue, pool, autoscaler, upkeep, own, ...parts }: Parts): void {
  const { webhooks, schedules, volumes, logs, secrets, callerWaits } = parts;
  // Workers ended, and endpoints drained, while their rows could not be changed.
  storage.onReturn(() => {
    upkeep.rows.nudge();
    upkeep.removed.nudge();
  });
  queue.events.jobFinished(({ webhook }) => {
    if (webhook !== "") webhooks.nudge();
  });
  queue.events.jobDelayed(({ id, endpointId, workerId, ...attempt }) => {
    logs.append({ endpointId, workerId, jobId: id, stream: "stderr", text: attemptLine(attempt) });
  });
  queue.events.jobQueued((endpointId) => {
    autoscaler.wake(endpointId);
    callerWaits(endpointId);
  });
  store.onChange((change) => {
    if (change.table !== "keys") upkeep.verdicts.nudge();
    if (change.table !== "endpoints") return;
    const { id, endpoint } = change;
    if (endpoint?.networkVolumeId !== "") own("reading the limits of volumes", volumes.readLimits());
    if (endpoint?.schedule) schedules.nudge();
    if (endpoint !== undefined) pool.endpointChanged(endpoint);
    else {
      pool.endpointRemoved(id);
      upkeep.removed.nudge();
      own("removing a log", logs.forget(id));
      secrets.forget(id);
    }
    autoscaler.wake(id);
  });
}

/** Endpoints come to this platform and go from it, where it shares them with others. */
export function followShards(shards: OwnShards, parts: Parts): void {
  const { queue, link, pool, ahead, autoscaler, schedules, webhooks, upkeep } = parts;
  const isBusy = async (id: string) => link.sample(id).running > 0 || (await queue.counts(id)).inProgress > 0;
  shards.follow({
    async moved(came) {
      link.endpointsMoved();
      await ahead?.adopt(came);
      // Rows of workers are looked through later.
      for (const id of await queue.endpointIds()) {
        if (came(id) && (await queue.counts(id)).inQueue > 0) autoscaler.wake(id);
      }
    },
    async changed() {
      await pool.recover();
      await autoscaler.lookAtAll();
      for (const each of [schedules, webhooks, upkeep.removed]) each.nudge();
    },
    served(isMeant) {
      const wishes = new Map<string, AheadWish>();
      for (const { endpointId, revision } of link.served()) {
        if (!isMeant(endpointId)) continue;
        const key = `${endpointId} ${revision}`;
        wishes.set(key, { endpointId, revision, workers: (wishes.get(key)?.workers ?? 0) + 1 });
      }
      return [...wishes.values()];
    },
    async drain(isMeant) {
      const until = performance.now() + STOP_GRACE_MS;
      for (const id of await pool.drain(isMeant)) {
        while (performance.now() < until && (await isBusy(id))) await pause(SHARD_POLL_MS);
      }
    },
    live: () => autoscaler.awake,
    busy: () =>
      [...autoscaler.awake].filter((endpointId) => {
        const { running, averageExecMs = Number.POSITIVE_INFINITY } = link.sample(endpointId);
        return running > 0 && averageExecMs > SHARD_SHORT_JOBS_MS;
      }),
  });
}
