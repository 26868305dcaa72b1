/** Keeps a claim open for each worker of a queue-based endpoint and hands it the jobs as they come. */

import { FRAME } from "../domain/worker-protocol.ts";
import type { ClaimedJob, JobProgress, Queue } from "../queue/queue.ts";
import { JobWork } from "./job-work.ts";
import type { WorkerSession } from "./session.ts";

/** Runs until the session takes no more work. A claim that arrives too late goes back to the queue. */
export async function dispatchJobs(session: WorkerSession, queue: Queue & JobProgress): Promise<void> {
  const { signal } = session.intake;
  const { endpoint, worker } = session;
  let wake = () => {};
  session.onFree = () => wake();
  signal.addEventListener("abort", () => wake(), { once: true });
  while (!signal.aborted && session.isReady) {
    // One that does not read must not gather in our memory what others could run.
    if (session.connection.isBehind) await session.connection.drained();
    const free = session.free;
    if (free <= 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      continue;
    }
    const jobs = await queue.claim(endpoint.id, worker.id, free, signal);
    for (const job of jobs) {
      const isLate = signal.aborted || !session.isReady || !session.connection.isOpen;
      if (isLate) session.own("handing a job back", queue.release(job, "handed-back"));
      else send(session, queue, job);
    }
  }
}

function send(session: WorkerSession, queue: Queue & JobProgress, job: ClaimedJob): void {
  const channel = session.newChannel();
  const claim = { jobId: job.jobId, fence: job.fence };
  session.add(new JobWork(session, queue, channel, claim, job.executionTimeoutMs, job.input.byteLength));
  // Written by hand: this runs for every job, and none of the values needs escaping but the method.
  const method = job.method === "" ? "" : `,"method":${JSON.stringify(job.method)}`;
  const head = `{"job":"${job.jobId}","fence":${job.fence},"timeoutMs":${job.executionTimeoutMs}${method}}`;
  session.connection.send(FRAME.JOB, channel, head, job.input);
}
