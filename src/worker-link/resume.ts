/**
 * A worker that says HELLO with work from before: what of it is still its own goes on, what was given up meanwhile is
 * cancelled there, and what never reached it goes back to the queue.
 */
import type { HeldJob } from "../domain/worker-protocol.ts";
import type { Claim, JobProgress, JobReader, Queue } from "../queue/queue.ts";
import { JobWork } from "./job-work.ts";
import type { WorkerSession } from "./session.ts";
import type { Work } from "./work.ts";

type ResumeQueue = Queue & JobProgress & JobReader;

/**
 * It comes back to the platform that it left a moment ago. That one knows what it handed out; jobs that it hands out
 * from now on are none of this.
 */
export async function goOn(session: WorkerSession, queue: ResumeQueue, held: readonly HeldJob[]): Promise<void> {
  const kept = new Set<Work>();
  for (const entry of held) {
    const work = session.works.get(entry.channel);
    const isIts = work instanceof JobWork && work.claim.jobId === entry.job && work.claim.fence === entry.fence;
    if (isIts) kept.add(work);
  }
  for (const work of [...session.works.values()]) {
    if (kept.has(work)) session.tellAgain(work);
    else {
      work.lost(!(work instanceof JobWork), "its connection broke");
      session.remove(work);
    }
  }
  session.drainAgain();
  const others = held.filter(({ channel }) => !session.works.has(channel));
  if (others.length > 0) await take(session, queue, others, await claimsOf(session, queue));
}

/** It comes to a platform that was started after it got its jobs: their claims say what is still its own. */
export async function adopt(session: WorkerSession, queue: ResumeQueue, held: readonly HeldJob[]): Promise<void> {
  const claims = await claimsOf(session, queue);
  await take(session, queue, held, claims);
  const heldIds = new Set(held.map(({ job }) => job));
  for (const claim of claims.values()) if (!heldIds.has(claim.jobId)) await queue.release(claim, "handed-back");
}

async function claimsOf(session: WorkerSession, queue: ResumeQueue): Promise<Map<string, Claim>> {
  return new Map((await queue.claimsOf(session.worker.id)).map((claim) => [claim.jobId, claim]));
}

/** Makes works of what it holds. What is not its own any more, given to another worker or over, holds its slot until it has stopped that. */
async function take(
  session: WorkerSession,
  queue: ResumeQueue,
  held: readonly HeldJob[],
  claims: ReadonlyMap<string, Claim>,
): Promise<void> {
  for (const { channel, job: jobId, fence, heldMs = 0 } of held) {
    const job = claims.get(jobId)?.fence === fence ? await queue.find(jobId, 0) : undefined;
    const work = new JobWork(session, queue, channel, { jobId, fence }, job?.executionTimeoutMs ?? 0);
    // Those behind its slots have not begun.
    const runs = session.works.size < session.endpoint.maxConcurrency;
    session.works.set(channel, work);
    if (job === undefined) session.end(work, "cancelled");
    else if (runs) work.startedAt = performance.now() - heldMs;
  }
}
