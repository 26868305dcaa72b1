/** A platform on PostgreSQL whose primary is killed under load, and whose synchronous standby is promoted, again and again. */
import { setTimeout as delay } from "node:timers/promises";
import { startPostgresPair } from "../postgres-pair.ts";
import { judge, type Verdict } from "./history.ts";
import { prepare, probe } from "./kill-matrix.ts";
import { startLoad } from "./loads.ts";

export interface FailoverReport {
  readonly accepted: number;
  /** What was broken, by its kind. */
  readonly broken: Readonly<Record<Exclude<keyof Verdict, "accepted">, readonly string[]>>;
  /** From the kill until calls have results again, of a worker that is there and of one that must be started. */
  readonly pauseMs: readonly number[];
}

export interface FailoverOptions {
  /** The folder of PostgreSQL's programs. */
  readonly bin: string;
  readonly rounds: number;
  /** Jobs that are submitted in every second round, without waiting for results. */
  readonly queued: number;
  readonly loadMs: number;
  readonly recoverMaxMs: number;
  readonly say: (line: string) => void;
}

export async function failovers(options: FailoverOptions): Promise<FailoverReport> {
  const { rounds, queued, loadMs, recoverMaxMs, say } = options;
  const broken = { lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] } as Record<
    keyof FailoverReport["broken"],
    string[]
  >;
  const pauseMs: number[] = [];
  let accepted = 0;
  const pair = await startPostgresPair(options.bin);
  try {
    const place = await prepare({ env: { SVC_DATABASE_URL: pair.url } });
    try {
      for (let round = 1; round <= rounds; round++) {
        const kind = round % 2 === 1 ? "runsync" : "queued";
        await pair.makeStandby();
        const load = await startLoad(kind, place.subject, place.urls, { queued, answerMaxMs: 2 * recoverMaxMs });
        await delay(loadMs);
        const killed = performance.now();
        await pair.failOver();
        const probed = await probe(place, recoverMaxMs);
        if (probed === undefined) broken.stuck.push(`round ${round}: no result within ${recoverMaxMs} ms`);
        else pauseMs.push(performance.now() - killed);
        await load.stop();
        const verdict = judge(await load.settle(recoverMaxMs));
        accepted += verdict.accepted;
        for (const what of Object.keys(broken) as (keyof typeof broken)[])
          broken[what].push(...verdict[what].map((line) => `round ${round}, ${kind}: ${line}`));
        say(
          `${round}: ${kind}, ${verdict.accepted} jobs accepted, results again after ${pauseMs.at(-1)?.toFixed(0)} ms`,
        );
      }
    } finally {
      await place.subject.close();
    }
  } finally {
    await pair.stop();
  }
  return { accepted, broken, pauseMs };
}
