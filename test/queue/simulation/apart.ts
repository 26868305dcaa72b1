/** Schedules in a thread of their own: the test runner follows each promise of its own, and that costs more than they do. */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type TryOptions, trySchedules } from "./schedules.ts";

interface Tried {
  readonly count: number;
  readonly options: TryOptions;
}

/** As trySchedules. */
export async function trySchedulesApart(count: number, options: TryOptions = {}): Promise<string | undefined> {
  const thread = new Worker(new URL(import.meta.url), { workerData: { count, options } satisfies Tried });
  const [found] = await once(thread, "message");
  await thread.terminate();
  return found as string | undefined;
}

if (!isMainThread && parentPort !== null) {
  const { count, options } = workerData as Tried;
  parentPort.postMessage(await trySchedules(count, options));
}
