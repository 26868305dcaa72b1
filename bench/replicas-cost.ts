/** What a call costs that goes by another platform than the one that has its endpoint. */
import { atMost, type BenchResult, median } from "./bench.ts";
import { load, requireWrk, type Target } from "./load.ts";
import { processorTime } from "./processor-time.ts";
import type { Replicas } from "./replicas-part.ts";

const FORWARDS = 5;
const SECONDS = 3;
const CONNECTIONS = 30;

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
  const used: Record<string, number[]> = { one: [], three: [] };
  const pids = platforms.ports.map((_, n) => platforms.pid(n));
  const counted = async (targets: readonly number[]) => {
    const spent = processorTime({ platforms: { pids } });
    const loads = await Promise.all(targets.map((n) => load(job(n), CONNECTIONS / targets.length, SECONDS)));
    return (spent().platforms! * 1000) / loads.reduce((sum, { requests }) => sum + requests, 0);
  };
  for (let round = 0; round <= FORWARDS; round++) {
    // It may move some time after a platform came.
    const [owner, webOwner] = [await ownerOf("work"), await ownerOf("web")];
    const seen = {
      owner: (await load(job(owner), 1, SECONDS)).p50Ms,
      other: (await load(job(allBut(owner)[0]!), 1, SECONDS)).p50Ms,
      "owner, route": (await load(route(webOwner), 1, SECONDS)).p50Ms,
      "other, route": (await load(route(allBut(webOwner)[0]!), 1, SECONDS)).p50Ms,
    };
    const cost = { one: await counted([owner]), three: await counted(all) };
    // Code that was never run is slow at first.
    if (round === 0) continue;
    for (const [name, value] of Object.entries(seen)) p50[name]!.push(value);
    for (const [name, value] of Object.entries(cost)) used[name]!.push(value);
  }
  const of = (name: string) => median(p50[name]!);
  const [one, three] = [median(used.one!), median(used.three!)];
  return {
    conditions: {
      cost: `${await requireWrk()}, ${FORWARDS} rounds in turns of ${SECONDS} s; p50 with 1 connection, processor time with ${CONNECTIONS}`,
      "calls to all three": "a third of them to each: two of three are forwarded",
    },
    figures: {
      ...Object.fromEntries(Object.keys(p50).map((name) => [`${name}: p50 of a call, ms`, of(name)])),
      "route: added p50, ms": of("other, route") - of("owner, route"),
      "platforms' µs/job, calls to the owner": one,
      "platforms' µs/job, calls to all three": three,
    },
    bars: {
      "added p50 of a forward": atMost(of("other") - of("owner"), 0.3, " ms"),
      "processor time of three/one": atMost(three / one, 1.25),
    },
  };
}
