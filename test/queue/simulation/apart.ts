/** Schedules in a thread of their own: the test runner follows each promise of its own, and that costs more than they do. */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type TryOptions, trySchedules } from "./schedules.ts";

interface Tried {
  readonly count: number;
  readonly options: TryOptions;
}

/** Nearly all that a schedule makes dies with it: in the usual young generation it is copied many times before. */
const YOUNG_MB = 96;

/** As trySchedules. */
export async function trySchedulesApart(count: number, options: TryOptions = {}): Promise<string | undefined> {
  const thread = new Worker(new URL(import.meta.url), {
    workerData: { count, options } satisfies Tried,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  });
  const [found] = await once(thread, "message");
  await thread.terminate();
  return found as string | undefined;
}

if (!isMainThread && parentPort !== null) {
  const { count, options } = workerData as Tried;
  // A schedule throws hundreds of errors that somebody awaits. What fails is looked at when it is tried again.
  if (process.env.SVC_SCHEDULE === undefined) Error.stackTraceLimit = 0;
  parentPort.postMessage(await trySchedules(count, options));
}
