/**
 * The kill matrix: process × fault × load, cells drawn at random from a printed seed, on one platform. After each round callers
 * ask about every accepted job, and `judge` says which promise was broken.
 */
import { setTimeout as delay } from "node:timers/promises";
import { COMPONENTS, type Component, type Driver, FAULTS, type Fault, inflict, makesSense, pidOf } from "./faults.ts";
import { judge, type Verdict } from "./history.ts";
import { LOADS, type Load, project, startLoad } from "./loads.ts";
import { seededRandom } from "./seeded-random.ts";
import { Subject } from "./subject.ts";

export interface Cell {
  readonly component: Component;
  readonly fault: Fault;
  readonly load: Load;
}

export interface MatrixOptions {
  readonly driver?: Driver;
  /** Of the platform, beside its own. */
  readonly env?: Readonly<Record<string, string>>;
  readonly seed: number;
  readonly cells: readonly Cell[];
  /** Jobs that wait when the fault comes. */
  readonly queued: number;
  /** How long a process is stopped, the disk is full, and so on. */
  readonly faultMs: number;
  /** A platform that serves nobody for so long is stuck; so is a job that is not final by then. */
  readonly recoverMaxMs: number;
  readonly say: (line: string) => void;
}

export interface MatrixReport {
  readonly rounds: number;
  /** Cells that could not be done here. */
  readonly impossible: readonly string[];
  /** What was broken, by its kind. */
  readonly broken: Readonly<Record<Exclude<keyof Verdict, "accepted">, readonly string[]>>;
  readonly accepted: number;
  /** From the end of the fault to the next result. */
  readonly recoveryMs: readonly number[];
}

const LOAD_BEFORE_MS = 300;
const LOAD_AFTER_MS = 300;
const CHOOSE_TRIES = 3;

export function allCells(driver: Driver = "processes"): Cell[] {
  return COMPONENTS[driver].flatMap((component) =>
    FAULTS.filter((fault) => makesSense(fault, component, driver)).flatMap((fault) =>
      LOADS.map((load) => ({ component, fault, load })),
    ),
  );
}

export function randomCells(count: number, seed: number, driver: Driver = "processes"): Cell[] {
  const random = seededRandom(seed);
  const all = allCells(driver);
  return Array.from({ length: count }, () => all[Math.floor(random() * all.length)]!);
}

export async function killMatrix(options: MatrixOptions): Promise<MatrixReport> {
  const random = seededRandom(options.seed);
  const broken = { lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] } as Record<
    keyof MatrixReport["broken"],
    string[]
  >;
  const impossible: string[] = [];
  const recoveryMs: number[] = [];
  let accepted = 0;
  let place = await prepare(options);
  try {
    for (const [number, cell] of options.cells.entries()) {
      const name = `${number + 1}: ${cell.component} ${cell.fault}, ${cell.load}`;
      const round = await playRound(cell, place, options, random);
      if (!round.done) impossible.push(name);
      accepted += round.verdict.accepted;
      for (const kind of Object.keys(broken) as (keyof typeof broken)[]) {
        broken[kind].push(...round.verdict[kind].map((what) => `round ${name}: ${what}`));
      }
      if (round.recoveredMs === undefined) {
        broken.stuck.push(`round ${name}: no result within ${options.recoverMaxMs} ms`);
      } else recoveryMs.push(round.recoveredMs);
      // What rounds uploaded is kept for a day: it would fill the small disk for good.
      if (round.recoveredMs === undefined || place.subject.diskIsHalfFull) {
        await place.subject.close();
        place = await prepare(options);
      }
      options.say(
        `${name}: ${round.done ? `result after ${round.recoveredMs?.toFixed(0) ?? "no"} ms` : "could not be done here"}`,
      );
    }
  } finally {
    await place.subject.close();
  }
  return { rounds: options.cells.length, impossible, broken, accepted, recoveryMs };
}

export interface Place {
  readonly subject: Subject;
  readonly urls: Readonly<Record<string, string>>;
}

export async function prepare({ env }: Pick<MatrixOptions, "env">): Promise<Place> {
  const subject = await Subject.start(env);
  try {
    const urls = await subject.set(project(0));
    await probe({ subject, urls }, 30_000);
    return { subject, urls };
  } catch (error) {
    await subject.close();
    throw error;
  }
}

async function playRound(cell: Cell, place: Place, options: MatrixOptions, random: () => number) {
  const { subject, urls } = place;
  const { faultMs, recoverMaxMs, queued, driver = "processes" } = options;
  const load = await startLoad(cell.load, subject, urls, { queued, answerMaxMs: faultMs + recoverMaxMs });
  await delay(LOAD_BEFORE_MS);
  const { pid: platform, dataDir, setClock } = subject;
  const processes = { driver, platform, dataDir, setClock };
  let done = false;
  // The process may end in the moment in which it is chosen: a deploy replaces workers.
  for (let tries = 0; !done && tries < CHOOSE_TRIES; tries++) {
    const pid = await pidOf(cell.component, processes, random);
    done = pid !== undefined && (await inflict(cell.fault, pid, processes, faultMs));
  }
  if (cell.component === "platform" && cell.fault === "killed") await subject.restart();
  const recoveredMs = await probe(place, recoverMaxMs);
  // A platform that ended by itself broke its promise; what it accepted must still come true.
  if (recoveredMs === undefined && !subject.isAlive) await subject.restart();
  await delay(LOAD_AFTER_MS);
  await load.stop();
  const histories = await load.settle(recoverMaxMs);
  // An hour ahead, what was final has had its time.
  const kept = cell.fault === "clock set" ? histories.map((history) => ({ ...history, keptUntilMs: 0 })) : histories;
  const verdict = judge(kept);
  return { done, recoveredMs, verdict };
}

/** Milliseconds until calls have their results, of a worker that is there and of one that must be started; undefined when that takes too long. */
export async function probe(place: Place, withinMs: number): Promise<number | undefined> {
  const started = performance.now();
  for (const endpoint of ["probe", "fresh"]) {
    const left = withinMs - (performance.now() - started);
    if (!(await answers(place, endpoint, left))) return undefined;
  }
  return performance.now() - started;
}

async function answers({ subject, urls }: Place, endpoint: string, withinMs: number): Promise<boolean> {
  const started = performance.now();
  while (performance.now() - started < withinMs) {
    const reply = await subject
      .ask(`${urls[endpoint]}/runsync`, { input: { n: 1 } }, { maxMs: 5_000 })
      .catch(() => undefined);
    if (reply?.status === 200 && reply.json.status === "COMPLETED") return true;
    await delay(10);
  }
  return false;
}
