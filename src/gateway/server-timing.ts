/** The `Server-Timing` header of an answer: where its time went, in milliseconds. Waiting for a worker to start is part of queue. */
import type { RequestTiming } from "../domain/request.ts";
import type { WorkerBoot } from "../domain/worker.ts";
import type { Job } from "../queue/queue.ts";

export function serverTiming({ queueMs, bootMs, importMs, execMs }: RequestTiming): string {
  return `queue;dur=${ms(queueMs)}, boot;dur=${ms(bootMs)}, import;dur=${ms(importMs)}, exec;dur=${ms(execMs)}`;
}

/** `boot` of the job's worker, when that is still known. */
export function jobTiming(job: Job, now: number, boot: WorkerBoot | undefined): RequestTiming {
  const { createdAt, startedAt, finishedAt } = job;
  if (startedAt === null) return { queueMs: (finishedAt ?? now) - createdAt, bootMs: 0, importMs: 0, execMs: 0 };
  const bootedForIt = boot !== undefined && boot.startedAt >= createdAt;
  return {
    queueMs: startedAt - createdAt,
    bootMs: bootedForIt ? boot.bootMs : 0,
    importMs: bootedForIt ? boot.importMs : 0,
    execMs: (finishedAt ?? now) - startedAt,
  };
}

function ms(value: number): number {
  return Math.round(value * 1000) / 1000;
}
