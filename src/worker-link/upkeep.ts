/** What is looked at again and again, whatever comes: works past their time, leases, links that are silent. */
import {
  LINK_PING_MS,
  LINK_SILENCE_MAX_MS,
  PREFETCH_EXECUTION_MAX_MS,
  WORKER_BOOT_TIMEOUT_MS,
} from "../domain/limits.ts";
import { FRAME } from "../domain/worker-protocol.ts";
import type { Queue } from "../queue/queue.ts";
import { JobWork } from "./job-work.ts";
import type { LinkHooks } from "./link-hooks.ts";
import type { WorkerSession } from "./session.ts";
import type { Sessions } from "./sessions.ts";

/** Ends what is past its time and reports workers that do not obey or never become ready. */
export function sweep(sessions: Sessions, hooks: Pick<LinkHooks, "workerStuck">): void {
  const now = performance.now();
  for (const session of sessions.all()) {
    if (session.sweep(now)) hooks.workerStuck(session.worker.id, "it did not stop when it was cancelled");
    if (session.endpoint.kind === "queue") session.recall(now, PREFETCH_EXECUTION_MAX_MS);
    const isLate = session.slots === 0 && !session.pulls && now - session.beganAt > WORKER_BOOT_TIMEOUT_MS;
    if (isLate) hooks.workerStuck(session.worker.id, "it was not ready in time");
  }
}

/** Renews the leases of what runs; what is no longer the worker's is cancelled there. */
export async function renewLeases(sessions: Sessions, queue: Pick<Queue, "renew">): Promise<void> {
  const works: { session: WorkerSession; work: JobWork }[] = [];
  for (const session of sessions.all()) {
    for (const work of session.works.values()) {
      if (work instanceof JobWork && work.endedAt === null) works.push({ session, work });
    }
  }
  if (works.length === 0) return;
  const invalid = new Set((await queue.renew(works.map(({ work }) => work.claim))).map((claim) => claim.jobId));
  for (const { session, work } of works) {
    if (invalid.has(work.claim.jobId) && session.works.get(work.channel) === work) session.end(work, "cancelled");
  }
}

/**
 * Asks the workers of other machines that were not heard of for a while, and closes the links that stay silent, unless their
 * launcher says that the process lives. A worker of this machine is never asked: its link closes when its process ends, and a
 * function that holds up its whole process, as code in C can, is not dead.
 */
export async function ping(sessions: Sessions, hooks: Pick<LinkHooks, "aliveWorkers">): Promise<void> {
  const now = performance.now();
  const silent: WorkerSession[] = [];
  for (const session of sessions.all()) {
    if (!mustAnswer(session)) continue;
    if (isSilent(session, now)) silent.push(session);
    const { connection } = session;
    if (now - connection.lastHeard > LINK_PING_MS / 2) connection.send(FRAME.PING, 0);
  }
  if (silent.length === 0) return;
  const alive = new Set(await hooks.aliveWorkers());
  for (const { connection, worker } of silent) {
    if (connection.lastHeard < now - LINK_SILENCE_MAX_MS && !alive.has(worker.id)) connection.destroy();
  }
}

/** It said nothing for longer than it may. */
export function isSilent(session: WorkerSession, now: number): boolean {
  return mustAnswer(session) && now - session.connection.lastHeard > LINK_SILENCE_MAX_MS;
}

/** One that imports cannot answer yet; the boot time-out watches it. */
function mustAnswer({ connection, slots }: WorkerSession): boolean {
  return !connection.isPaused && !connection.isLocal && slots > 0;
}
