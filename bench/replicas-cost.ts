/** What a call costs that goes by another platform than the one that has its endpoint. */
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { atMost, type BenchResult, median } from "./bench.ts";
import { load, requireWrk, type Target } from "./load.ts";
import { processorTime } from "./processor-time.ts";
import type { Replicas } from "./replicas-part.ts";

const FORWARDS = 5;
const SECONDS = 3;
/** Few are open at a time, so each turn of the loop has few frames; and so many that the platforms are never idle. */
const CONNECTIONS = { few: 30, many: 192 };
/** Code that ran seldom costs several times as much: each platform answers so many calls first, if it can in that time. */
const WARM_CALLS = 60_000;
const WARM_MAX_MS = 60_000;

/** Of platforms that nobody stops. */
export async function measureCost({ platforms, paths, ownerOf }: Replicas): Promise<BenchResult> {
  const all = [...platforms.ports.keys()];
  const allBut = (owner: number) => all.filter((n) => n !== owner);
  const headers = { "content-type": "application/json", authorization: `Bearer ${platforms.key}` };
  const body = JSON.stringify({ input: { n: 1 } });
  const job = (n: number): Target => ({
    url: `${platforms.url(n)}${paths.work}/runsync`,
    method: "POST",
    headers,
    body,
  });
  const route = (n: number): Target => ({
    url: `${platforms.url(n)}${paths.web}/hello?n=1`,
    method: "GET",
    headers,
    body: "",
  });
  const p50: Record<string, number[]> = { owner: [], other: [], "owner, route": [], "other, route": [] };
  const used = new Map<string, number[]>();
  const pids = platforms.ports.map((_, n) => platforms.pid(n));
  const counted = async (targets: readonly number[], connections: number) => {
    const spent = processorTime({ platforms: { pids } });
    const loads = await Promise.all(targets.map((n) => load(job(n), connections / targets.length, SECONDS)));
    return (spent().platforms! * 1000) / loads.reduce((sum, { requests }) => sum + requests, 0);
  };
  const warmCalls = Math.min(...(await Promise.all(all.map((n) => warm(job(n), CONNECTIONS.many / all.length)))));
  for (let round = 0; round <= FORWARDS; round++) {
    // It may move some time after a platform came.
    const [owner, webOwner] = [await ownerOf("work"), await ownerOf("web")];
    const seen = {
      owner: (await load(job(owner), 1, SECONDS)).p50Ms,
      other: (await load(job(allBut(owner)[0]!), 1, SECONDS)).p50Ms,
      "owner, route": (await load(route(webOwner), 1, SECONDS)).p50Ms,
      "other, route": (await load(route(allBut(webOwner)[0]!), 1, SECONDS)).p50Ms,
    };
    // The routes were not called yet.
    if (round === 0) continue;
    for (const [name, value] of Object.entries(seen)) p50[name]!.push(value);
    for (const connections of Object.values(CONNECTIONS)) {
      const [one, three] = [await counted([owner], connections), await counted(all, connections)];
      const cost = { "calls to the owner": one, "calls to all three": three, "three/one": three / one };
      for (const [name, value] of Object.entries(cost))
        getOrInsert(used, `${name}, ${connections}`, () => []).push(value);
    }
  }
  const of = (name: string) => median(p50[name]!);
  const cost = (name: string, connections: number) => median(used.get(`${name}, ${connections}`)!);
  return {
    conditions: {
      cost: `${await requireWrk()}, ${FORWARDS} rounds in turns of ${SECONDS} s; p50 with 1 connection, processor time with ${CONNECTIONS.few} and ${CONNECTIONS.many}`,
      "calls before": `${warmCalls} at least to each`,
      "calls to all three": "a third of them to each: two of three are forwarded",
    },
    figures: {
      ...Object.fromEntries(Object.keys(p50).map((name) => [`${name}: p50 of a call, ms`, of(name)])),
      "route: added p50, ms": of("other, route") - of("owner, route"),
      ...Object.fromEntries(
        Object.values(CONNECTIONS).flatMap((connections) =>
          ["calls to the owner", "calls to all three"].map((name) => [
            `platforms' µs/job, ${connections} connections, ${name}`,
            cost(name, connections),
          ]),
        ),
      ),
    },
    bars: {
      "added p50 of a forward": atMost(of("other") - of("owner"), 0.3, " ms"),
      "processor time of three/one, few calls at a time": atMost(cost("three/one", CONNECTIONS.few), 1.25),
      "processor time of three/one, many": atMost(cost("three/one", CONNECTIONS.many), 1.25),
    },
  };
}

/** Resolves how many calls it answered. */
async function warm(target: Target, connections: number): Promise<number> {
  const began = performance.now();
  let calls = 0;
  while (calls < WARM_CALLS && performance.now() - began < WARM_MAX_MS)
    calls += (await load(target, connections, SECONDS)).requests;
  return calls;
}
