/** One endpoint, simulated event by event: arrivals, starts, completions, and a policy that says how many workers to have. */
import { decide } from "../../src/autoscaler/decide.ts";
import { LoadAverage } from "../../src/autoscaler/load-average.ts";
import type { SimulatedJob } from "./shapes.ts";

const WORKERS_MAX = 30;
const START_SECONDS = 1;
const STEP_SECONDS = 0.05;
const IDLE_TIMEOUT_MS = 1_000;

interface SimulatedWorker {
  readonly id: string;
  readonly startedAt: number;
  readyAt: number;
  job: SimulatedJob | undefined;
  busyUntil: number;
  idleSince: number;
}

export interface View {
  readonly now: number;
  readonly waiting: readonly SimulatedJob[];
  readonly workers: readonly SimulatedWorker[];
  readonly running: number;
  readonly averageSeconds: number | undefined;
}

/** What to start and which workers to stop; only idle ones are. */
export type Policy = (view: View) => { readonly start: number; readonly stop: readonly string[] };

export interface SimulationResult {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly workerSeconds: number;
  readonly starts: number;
}

export function simulate(jobs: readonly SimulatedJob[], policy: Policy): SimulationResult {
  const waits: number[] = [];
  const queue: SimulatedJob[] = [];
  let workers: SimulatedWorker[] = [];
  let workerSeconds = 0;
  let starts = 0;
  let arrived = 0;
  let average: number | undefined;
  for (let now = 0; waits.length < jobs.length || workers.length > 0; now += STEP_SECONDS) {
    while (arrived < jobs.length && jobs[arrived]!.arrival <= now) queue.push(jobs[arrived++]!);
    for (const worker of workers) {
      if (worker.job === undefined || worker.busyUntil > now) continue;
      average = average === undefined ? worker.job.seconds : average + 0.1 * (worker.job.seconds - average);
      worker.idleSince = worker.busyUntil;
      worker.job = undefined;
    }
    for (const worker of workers) {
      if (worker.job !== undefined || worker.readyAt > now || queue.length === 0) continue;
      const normal = queue.findIndex((job) => !job.lowPriority);
      const [job] = queue.splice(Math.max(0, normal), 1);
      if (!job!.lowPriority) waits.push(now - job!.arrival);
      else waits.push(Number.NaN);
      worker.job = job;
      worker.busyUntil = now + job!.seconds;
    }
    const running = workers.filter((worker) => worker.job !== undefined).length;
    const { start, stop } = policy({ now, waiting: queue, workers, running, averageSeconds: average });
    const stopped = new Set(stop);
    workers = workers.filter((worker) => worker.job !== undefined || !stopped.has(worker.id));
    for (let i = 0; i < start && workers.length < WORKERS_MAX; i++) {
      starts++;
      const readyAt = now + START_SECONDS;
      workers.push({ id: `w${starts}`, startedAt: now, readyAt, job: undefined, busyUntil: 0, idleSince: readyAt });
    }
    workerSeconds += workers.length * STEP_SECONDS;
  }
  const sorted = waits.filter((wait) => !Number.isNaN(wait)).sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99), workerSeconds, starts };
}

/** The idle ones among the workers beyond `desired`, longest idle first. */
function surplus(view: View, desired: number): string[] {
  const idle = view.workers.filter((worker) => worker.job === undefined && worker.readyAt <= view.now);
  const count = Math.max(0, view.workers.length - desired);
  return idle
    .sort((a, b) => a.idleSince - b.idleSince)
    .slice(0, count)
    .map((worker) => worker.id);
}

function ours(): Policy {
  const average = new LoadAverage();
  const averageLow = new LoadAverage();
  return (view) => {
    const nowMs = view.now * 1000;
    const normal = view.waiting.filter((job) => !job.lowPriority);
    const runningLowPriority = view.workers.filter((worker) => worker.job?.lowPriority).length;
    return decide({
      scalerType: "QUEUE_DELAY",
      scalerValue: 4,
      workersMin: 0,
      workersMax: WORKERS_MAX,
      idleTimeoutMs: IDLE_TIMEOUT_MS,
      maxConcurrency: 1,
      queued: normal.length,
      queuedLowPriority: view.waiting.length - normal.length,
      oldestWaitMs: normal[0] === undefined ? 0 : nowMs - normal[0].arrival * 1000,
      waitingRequests: 0,
      running: view.running,
      runningLowPriority,
      averageExecMs: view.averageSeconds === undefined ? undefined : view.averageSeconds * 1000,
      averageLoad: average.observe(normal.length + view.running - runningLowPriority, nowMs),
      averageLowPriority: averageLow.observe(runningLowPriority, nowMs),
      workers: view.workers.map((worker) => ({
        id: worker.id,
        current: true,
        ready: worker.readyAt <= view.now,
        busy: worker.job !== undefined,
        idleMs: worker.job === undefined && worker.readyAt <= view.now ? (view.now - worker.idleSince) * 1000 : 0,
      })),
      mustProve: false,
    });
  };
}

function perWaitingRequest(): Policy {
  return (view) => {
    const booting = view.workers.filter((worker) => worker.readyAt > view.now).length;
    const idle = view.workers.filter((worker) => worker.job === undefined && view.now - worker.idleSince > 5);
    return {
      start: Math.max(0, view.waiting.length - booting),
      stop: view.waiting.length > 0 ? [] : idle.map((w) => w.id),
    };
  };
}

/** Looks every `everySeconds`; between two looks nothing happens. */
function ticking(everySeconds: number, desired: (view: View) => number): Policy {
  let next = 0;
  return (view) => {
    if (view.now < next) return { start: 0, stop: [] };
    next = view.now + everySeconds;
    const wanted = desired(view);
    return { start: Math.max(0, wanted - view.workers.length), stop: surplus(view, wanted) };
  };
}

function knative(): Policy {
  const window: { at: number; concurrency: number }[] = [];
  return ticking(2, (view) => {
    window.push({ at: view.now, concurrency: view.waiting.length + view.running });
    while (window[0]!.at < view.now - 60) window.shift();
    const mean = (from: number) => {
      const recent = window.filter((entry) => entry.at >= from);
      return recent.reduce((sum, entry) => sum + entry.concurrency, 0) / recent.length;
    };
    const stable = Math.ceil(mean(view.now - 60) / 0.7);
    const panic = Math.ceil(mean(view.now - 6) / 0.7);
    // A load twice what the workers bear is answered from the short window.
    return panic >= 2 * view.workers.length ? panic : stable;
  });
}

function keda(): Policy {
  let lastActive = Number.NEGATIVE_INFINITY;
  return ticking(30, (view) => {
    const load = view.waiting.length + view.running;
    if (load > 0) lastActive = view.now;
    const wanted = Math.ceil(load / 5);
    return wanted === 0 && view.now - lastActive < 300 ? Math.min(1, view.workers.length) : wanted;
  });
}

export const POLICIES: Record<string, () => Policy> = {
  ours,
  "(a) one per waiting request": perWaitingRequest,
  "(b) 2 s tick": knative,
  "(c) 30 s, queue / 5": keda,
};
