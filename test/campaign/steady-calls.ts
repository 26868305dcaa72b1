/**
 * Calls at a steady rate, however long those before them take: a pause is seen by all that come in it. Each goes to the next of several
 * platforms that says it is ready, as behind a load balancer.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "../../src/lib/http.ts";
import type { JobHistory, Seen } from "./history.ts";

export const STEADY_PROJECT = {
  "steady.py": `
import os, time
from svc import Endpoint

@Endpoint(name="work", workers=(1, 1), max_concurrency=16, idle_timeout=600)
async def work(n):
    return {"n": n, "once": f"{os.getpid()}-{time.monotonic_ns()}"}

web = Endpoint(name="web", workers=(1, 1), max_concurrency=16, idle_timeout=600)

@web.get("/hello")
async def hello(n: int):
    return {"n": n}
`,
};

const KINDS = ["runsync", "run", "route"] as const;
type Kind = (typeof KINDS)[number];

export interface Call {
  readonly kind: Kind;
  /** Which platform it went to. */
  readonly to: number;
  readonly atMs: number;
  readonly tookMs: number;
  /** "": as it should be. "own": its own connection ended. */
  readonly problem: string;
}

export interface SteadyCalls {
  readonly calls: readonly Call[];
  /** Answers of platforms that said that they were ready are counted from then on. */
  stop(): Promise<void>;
  /** What callers saw of each job that was accepted, by its id. */
  readonly jobs: ReadonlyMap<string, Seen[]>;
}

export interface SteadyTarget {
  readonly urls: readonly string[];
  readonly key: string;
  readonly paths: Readonly<Record<string, string>>;
  /** Of each kind. */
  readonly perSecond: Readonly<Record<Kind, number>>;
}

const LOOK_MS = 250;
const CALL_MAX_MS = 60_000;

export function startSteadyCalls({ urls, key, paths, perSecond }: SteadyTarget): SteadyCalls {
  const agents = urls.map(() => new Agent({ keepAlive: true, maxSockets: 256 }));
  const calls: Call[] = [];
  const jobs = new Map<string, Seen[]>();
  const under = new Set<Promise<void>>();
  const isReady = urls.map(() => true);
  const over = new AbortController();

  const ask = (to: number, method: string, at: string, body?: object) =>
    new Promise<{ status: number; text: string }>((resolve, reject) => {
      const bytes = body === undefined ? "" : JSON.stringify(body);
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const asked = request(new URL(at, urls[to]), { agent: agents[to], method, headers }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => {
          text += chunk;
        });
        answer.on("error", reject);
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
      });
      asked.on("error", reject);
      asked.setTimeout(CALL_MAX_MS, () => asked.destroy(new Error("no answer in time")));
      asked.end(bytes);
    });

  const looks = urls.map(async (_, to) => {
    while (!over.signal.aborted) {
      isReady[to] = await ask(to, "GET", "/readyz").then(
        ({ status }) => status === 200,
        () => false,
      );
      await delay(LOOK_MS, undefined, { signal: over.signal }).catch(() => {});
    }
  });

  let n = 0;
  let turn = 0;
  const next = () => {
    for (const _ of urls) {
      turn = (turn + 1) % urls.length;
      if (isReady[turn]) return turn;
    }
    return turn;
  };
  const call = async (kind: Kind) => {
    const [to, number, began, atMs] = [next(), ++n, performance.now(), performance.now()];
    const problem = await tried(kind, to, number).catch((error: NodeJS.ErrnoException) => {
      const isOwn = ["ECONNREFUSED", "ECONNRESET", "EPIPE"].includes(error.code ?? "");
      if (isOwn) isReady[to] = false;
      return isOwn ? "own" : error.message;
    });
    calls.push({ kind, to, atMs, tookMs: performance.now() - began, problem });
  };
  const tried = async (kind: Kind, to: number, number: number): Promise<string> => {
    const { status, text } =
      kind === "route"
        ? await ask(to, "GET", `${paths.web}/hello?n=${number}`)
        : await ask(to, "POST", `${paths.work}/${kind}`, { input: { n: number } });
    if (status !== 200) return `${kind}: ${status} ${text.slice(0, 300)}`;
    const json = JSON.parse(text);
    if (kind === "route") return json.n === number ? "" : `route: ${text}`;
    const result = json.output === undefined ? "" : JSON.stringify(json.output);
    jobs.set(json.id, [{ atMs: Date.now(), state: json.status, result }]);
    if (kind === "run") return "";
    return json.status === "COMPLETED" && json.output.n === number ? "" : `runsync: ${text.slice(0, 300)}`;
  };

  const begun = performance.now();
  const rates = KINDS.map(async (kind) => {
    for (let i = 1; !over.signal.aborted; i++) {
      const made = call(kind).finally(() => under.delete(made));
      under.add(made);
      const dueMs = begun + (i * 1000) / perSecond[kind] - performance.now();
      if (dueMs > 0) await delay(dueMs, undefined, { signal: over.signal }).catch(() => {});
    }
  });
  return {
    calls,
    jobs,
    async stop() {
      over.abort();
      await Promise.all([...looks, ...rates]);
      await Promise.all(under);
      for (const agent of agents) agent.destroy();
    },
  };
}

/** With what was found of each job at last. */
export function historiesOf(jobs: SteadyCalls["jobs"], found: ReadonlyMap<string, Seen[]>): JobHistory[] {
  return [...jobs].map(([name, seen]) => ({
    name,
    unanswered: 0,
    wrong: [],
    acceptedAtMs: seen[0]!.atMs,
    keptUntilMs: Number.POSITIVE_INFINITY,
    seen: [...seen, ...(found.get(name) ?? [{ atMs: Date.now(), state: "GONE", result: "" }])],
  }));
}
