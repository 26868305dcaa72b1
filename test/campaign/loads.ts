/** What callers do to the platform while something is done to it. Each writes down what it saw of its jobs. */
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { isFinal, type JobHistory, type Seen } from "./history.ts";
import type { Reply, Subject } from "./subject.ts";

export const LOADS = ["idle", "runsync", "queued", "streams", "deploy", "upload"] as const;
export type Load = (typeof LOADS)[number];

const CALLERS = 4;
const KEPT_MS = 60_000;
const UPLOAD_BYTES = 2_000_000;

export const project = (version: number) => ({
  "work.py": `
import os, time
from svc import Endpoint

VERSION = ${version}

@Endpoint(name="work", workers=(1, 3), idle_timeout=60)
def work(n):
    time.sleep(0.002)
    return {"n": n, "once": f"{os.getpid()}-{time.monotonic_ns()}"}

@Endpoint(name="probe", workers=(1, 1), idle_timeout=60)
def probe(n):
    return n

@Endpoint(name="fresh", workers=(0, 1), idle_timeout=1)
def fresh(n):
    return n

web = Endpoint(name="web", workers=(1, 2), max_concurrency=8)

@web.get("/stream")
def stream():
    for i in range(20):
        yield f"{i}\\n"
        time.sleep(0.01)
`,
});

class Job {
  readonly name: string;
  readonly seen: Seen[] = [];
  readonly wrong: string[] = [];
  unanswered = 0;
  id: string | undefined;
  acceptedAtMs: number | undefined;

  constructor(name: string) {
    this.name = name;
  }

  saw(reply: Reply): void {
    const { status, text, json } = reply;
    if (status === 404) this.seen.push({ atMs: Date.now(), state: "GONE", result: "" });
    else if (status === 200) this.seen.push({ atMs: Date.now(), state: json?.status ?? "?", result: resultOf(json) });
    else if (!REFUSALS.has(status)) this.wrong.push(`${status} ${text.slice(0, 300)}`);
  }

  history(): JobHistory {
    const { name, unanswered, wrong, acceptedAtMs, seen } = this;
    const firstFinal = seen.find(({ state }) => isFinal(state));
    const keptUntilMs = (firstFinal?.atMs ?? Number.POSITIVE_INFINITY) + KEPT_MS / 2;
    return { name, unanswered, wrong, acceptedAtMs, seen, keptUntilMs };
  }
}

/** Answers that say "not now". */
const REFUSALS = new Set([429, 503, 507]);
const AGAIN_MS = 20;

function resultOf(json: { output?: unknown; error?: unknown }): string {
  return json?.output === undefined ? "" : JSON.stringify(json.output);
}

export interface RunningLoad {
  /** No further request begins; resolves when those under way have an answer. */
  stop(): Promise<void>;
  /** Asks about every job until it is final, for so long at most, then once more. Resolves all histories. */
  settle(withinMs: number): Promise<JobHistory[]>;
}

export async function startLoad(
  load: Load,
  subject: Subject,
  urls: Readonly<Record<string, string>>,
  options: { queued: number; answerMaxMs: number },
): Promise<RunningLoad> {
  const jobs: Job[] = [];
  const done = new AbortController();
  const { answerMaxMs } = options;
  const run = randomBytes(4).toString("hex");

  /** The same key again after a broken connection: whether it was accepted cannot be known. */
  const submit = async (job: Job, route: string) => {
    const headers = { "idempotency-key": job.name };
    while (job.acceptedAtMs === undefined) {
      const reply = await asked(job, () =>
        subject.ask(`${urls.work}${route}`, { input: { n: 1 } }, { headers, maxMs: answerMaxMs }),
      );
      if (reply?.status === 200) {
        job.id = reply.json.id;
        job.acceptedAtMs = Date.now();
      } else if (done.signal.aborted) return;
      else await delay(AGAIN_MS);
    }
  };
  const asked = async (job: Job, ask: () => Promise<Reply>): Promise<Reply | undefined> => {
    try {
      const reply = await ask();
      job.saw(reply);
      return reply;
    } catch (error) {
      if ((error as Error).name === "TimeoutError") job.unanswered++;
      return undefined; // Broken: the caller knows.
    }
  };
  const newJob = () => {
    const job = new Job(`${load}-${run}-${jobs.length}`);
    jobs.push(job);
    return job;
  };
  const until = async (work: () => Promise<void>) => {
    while (!done.signal.aborted) await work();
  };

  const kinds: Record<Load, () => Promise<unknown>> = {
    idle: async () => {},
    runsync: () => inParallel(CALLERS, () => until(() => submit(newJob(), "/runsync"))),
    queued: async () => {
      let left = options.queued;
      await inParallel(CALLERS, async () => {
        while (left-- > 0 && !done.signal.aborted) await submit(newJob(), "/run");
      });
    },
    streams: () => inParallel(CALLERS, () => until(() => whole(newJob(), streamed))),
    deploy: () => until(() => whole(newJob(), () => deployed(subject, answerMaxMs))),
    upload: () => until(() => whole(newJob(), () => uploaded(subject, answerMaxMs))),
  };
  /** What is no job: it needs an answer and may not be a 500. */
  const whole = async (job: Job, ask: () => Promise<Reply>) => {
    await asked(job, ask);
    await delay(AGAIN_MS);
  };

  const streamed = async () => {
    const reply = await subject.ask(`${urls.web}/stream`, undefined, { maxMs: answerMaxMs });
    // A request is given to one worker: when that one is lost, its caller is told.
    return reply.status === 502 && reply.json?.code === "WORKER_LOST" ? { ...reply, status: 200 } : reply;
  };

  const running = kinds[load]();
  // Awaited in `stop`; until then nobody listens.
  running.catch(() => {});
  return {
    stop: async () => {
      done.abort();
      await running;
    },
    settle: async (withinMs) => {
      const end = performance.now() + withinMs;
      const accepted = jobs.filter((job) => job.id !== undefined);
      const open = [...accepted];
      const look = (job: Job, route: string) =>
        asked(job, () => subject.ask(`${urls.work}/${route}`, undefined, { maxMs: answerMaxMs }));
      await inParallel(16, async () => {
        for (let job = open.pop(); job !== undefined; job = open.pop()) {
          while (!isFinal(job.seen.at(-1)?.state ?? "") && performance.now() < end) {
            await look(job, `status-sync/${job.id}?wait=2000`);
            if (job.seen.at(-1)?.state === "GONE") break;
          }
        }
      });
      const again = [...accepted];
      await inParallel(16, async () => {
        for (let job = again.pop(); job !== undefined; job = again.pop()) await look(job, `status/${job.id}`);
      });
      return jobs.map((job) => job.history());
    },
  };
}

async function deployed(subject: Subject, maxMs: number): Promise<Reply> {
  // Refused is an answer, too: what was done to the platform is the reason.
  const late = AbortSignal.timeout(maxMs);
  await subject.deploy(project(Date.now()), late);
  return { status: 200, text: "", json: undefined };
}

async function uploaded(subject: Subject, maxMs: number): Promise<Reply> {
  const bytes = randomBytes(UPLOAD_BYTES);
  const digest = createHash("sha256").update(bytes).digest("hex");
  const pieces = async function* () {
    for (let at = 0; at < bytes.length; at += bytes.length / 20) {
      yield bytes.subarray(at, at + bytes.length / 20);
      await delay(20);
    }
  };
  const response = await fetch(`${subject.url}/layers/${digest}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${subject.key}` },
    body: Readable.toWeb(Readable.from(pieces())),
    duplex: "half",
    signal: AbortSignal.timeout(maxMs),
  } as RequestInit);
  const text = await response.text();
  // 400: not a layer; the bytes are random.
  return { status: response.status === 400 ? 200 : response.status, text, json: undefined };
}

async function inParallel(count: number, work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, work));
}
