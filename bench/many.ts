/**
 * Much that nobody uses: endpoints that are deployed and not called, and connections that are open and silent; and much that is
 * used seldom: endpoints that are called once a minute, deploys one after the other. What thousands of endpoints cost is the difference
 * between two platforms, one with and one without them, measured in turns. `--part NAME` runs one part alone.
 */
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atLeast, atMost, type Bar, type Bench, type BenchResult, median } from "./bench.ts";
import { requireWrk } from "./load.ts";
import { deployMany } from "./many-endpoints.ts";
import { connections, deploys, minute, type Rig, rate, rest, type Subject, start } from "./many-parts.ts";
import { startPlatform } from "./processes.ts";

const PARTS = { start, rest, rate, minute, deploys, connections };
/** They need one platform with one endpoint. */
const OF_FEW: readonly unknown[] = [deploys, connections];
const LOADED: readonly unknown[] = [rate, connections];
const COUNTS = { endpoints: 10_000, connections: 10_000, minuteEndpoints: 1_000, deploys: 500 };
const QUOTA = { SVC_WORKER_QUOTA: "100000" };
const WORKER = `
from svc import Endpoint

@Endpoint(name="called", workers=(0, 1))
def called(n=1):
    return n
`;

export const bench: Bench = (options) => many({ ...options, ...COUNTS });

export async function many(options: {
  readonly rounds: number;
  readonly part?: string | undefined;
  readonly endpoints: number;
  readonly connections: number;
  readonly minuteEndpoints: number;
  readonly deploys: number;
}): Promise<BenchResult> {
  const { rounds, part, endpoints } = options;
  const parts = Object.entries(PARTS).filter(([name]) => part === undefined || part === name);
  if (parts.length === 0) throw new Error(`There is no part "${part}", but ${Object.keys(PARTS).join(", ")}.`);
  const wrk = parts.some(([, measure]) => LOADED.includes(measure)) ? await requireWrk() : undefined;
  const seen = new Map<string, number[]>();
  const few = await subject();
  const second = await subject().catch(async (error) => {
    await few.platform.stop();
    throw error;
  });
  try {
    const name = `${endpoints} endpoints`;
    const isOfFew = parts.every(([, measure]) => OF_FEW.includes(measure));
    const rig: Rig = {
      few,
      many: { ...second, name, urls: isOfFew ? [] : await deployMany(second.platform, endpoints) },
      rounds,
      counts: options,
      note: (figure, value) => getOrInsert(seen, figure, () => []).push(value),
    };
    for (const [, measure] of parts) await measure(rig);
    const figures = Object.fromEntries([...seen].map(([figure, values]) => [figure, median(values)]));
    return {
      conditions: {
        endpoints: `${name} of apps of 100 that share a layer, deployed by the API, beside one that is called; auth on`,
        load: `${wrk === undefined ? "no load" : `${wrk}, 16 connections, 2 s each`}, same machine, ${rounds} rounds in turns`,
      },
      figures,
      bars: bars(figures, name, options.connections),
    };
  } finally {
    await Promise.all([few.platform.stop(), second.platform.stop()]);
  }
}

async function subject(): Promise<Subject> {
  const platform = await startPlatform(QUOTA);
  const { called } = await platform.deploy({ "worker.py": WORKER });
  return { platform, called: called! };
}

/** Of what was measured. */
function bars(figures: Readonly<Record<string, number>>, many: string, sockets: number): Record<string, Bar> {
  const all: Record<string, Bar> = {};
  const bar = (name: string, figure: string, say: (value: number) => Bar) => {
    if (figures[figure] !== undefined) all[name] = say(figures[figure]);
  };
  const ratio = (name: string, figure: string, than: string, say: (value: number) => Bar) => {
    if (figures[figure] !== undefined) all[name] = say(figures[figure] / figures[than]!);
  };
  bar("start", `${many}: listens after ms`, (ms) => atMost(ms, 3_000, " ms"));
  bar("at rest", `${many}: at rest % of a core`, (part) => atMost(part, 2, " % of a core"));
  bar("resident", `${many}: resident at rest MB`, (mb) => atMost(mb, 300, " MB"));
  const rateOf = (stage: string) => `${stage}: runsync requests/s`;
  const costOf = (stage: string) => `${stage}: runsync µs/request, platform`;
  ratio("rate, many / 1", rateOf(many), rateOf("1 endpoint"), (value) => atLeast(value, 0.9));
  ratio("processor time per request, many / 1", costOf(many), costOf("1 endpoint"), (value) => atMost(value, 1.1));
  bar("RSS grows in the second half of the deploys", "deploys: highest rssMb, last quarter less the second", (mb) =>
    atMost(mb, 15, " MB"),
  );
  bar("descriptors grow", "deploys: descriptors, second half", (count) => atMost(count, 20));
  bar("rows grow", "deploys: rows, second half", (count) => atMost(count, 20));
  bar("connections taken", `${sockets} open connections: taken`, (count) => atLeast(count, sockets));
  return all;
}
