/** A worker that says HELLO again, to this platform or to one that was started since: what it still holds and what it lost. */
import type { HelloHead } from "../domain/worker-protocol.ts";
import type { JobProgress, JobReader, Queue } from "../queue/queue.ts";
import { JobWork } from "./job-work.ts";
import type { WorkerSession } from "./session.ts";

type Held = NonNullable<HelloHead["unacknowledged"]>;
type ResumeQueue = Queue & JobProgress & JobReader;

/** Makes the session's works those that the worker says it holds, as far as they are still its own. */
export async function resume(session: WorkerSession, queue: ResumeQueue, unacknowledged: Held): Promise<void> {
  const held = new Map(unacknowledged.map((entry) => [entry.job, entry]));
  const known = new Set([...session.works.values()].map((work) => (work instanceof JobWork ? work.claim.jobId : "")));
  for (const claim of await queue.claimsOf(session.worker.id)) {
    const entry = held.get(claim.jobId);
    if (entry === undefined || entry.fence !== claim.fence) await queue.release(claim, "handed-back");
    else if (!known.has(claim.jobId)) await adopt(session, queue, entry);
  }
  for (const entry of held.values()) session.keepChannelsUpTo(entry.channel);
  for (const work of [...session.works.values()]) {
    if (work instanceof JobWork && held.has(work.claim.jobId)) continue;
    if (!(work instanceof JobWork)) work.lost(true, "its connection broke");
    session.works.delete(work.channel);
  }
}

async function adopt(session: WorkerSession, queue: ResumeQueue, entry: Held[number]): Promise<void> {
  const job = await queue.find(entry.job);
  if (job === undefined) return;
  const claim = { jobId: entry.job, fence: entry.fence };
  const work = new JobWork(session, queue, entry.channel, claim, job.executionTimeoutMs);
  work.startedAt = performance.now() - (Date.now() - (job.startedAt ?? Date.now()));
  session.works.set(entry.channel, work);
}
