/** Tries schedules, and says how the first that fails is tried again. */
import fc from "fast-check";
import type { Fault } from "./database.ts";
import { schedules } from "./world.ts";

export interface Replay {
  readonly seed: number;
  readonly path?: string;
}

/** What SVC_SCHEDULE asks for. */
export function replayed(text = process.env.SVC_SCHEDULE ?? ""): Replay | undefined {
  const [seed, path] = text.split(" ");
  return path === undefined ? undefined : { seed: Number(seed), path };
}

export interface TryOptions {
  readonly replay?: Replay | undefined;
  readonly fault?: Fault;
}

/** Resolves what was found wrong; undefined when nothing was. */
export async function trySchedules(count: number, { replay, fault }: TryOptions = {}): Promise<string | undefined> {
  const { failed, seed, counterexamplePath, errorInstance, counterexample } = await fc.check(schedules(fault), {
    numRuns: count,
    endOnFailure: true,
    ...replay,
  });
  if (!failed) return undefined;
  const { stack } = errorInstance as Error;
  const steps = JSON.stringify(counterexample?.[2]);
  return `SVC_SCHEDULE="${seed} ${counterexamplePath}" fails:\n${stack}\nsteps: ${steps}`;
}
