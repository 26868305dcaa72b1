/** What an agent's frames say, checked: it may say anything. */
import { bootFailureHead, startedHead } from "../../domain/frame-heads.ts";
import { type EventHead, hostWorkerExit } from "../../domain/host-protocol.ts";
import { HOST_TOLD_PER_MINUTE_MAX, LOG_FRAME_MAX_BYTES } from "../../domain/limits.ts";
import type { StartedHead } from "../../domain/worker-protocol.ts";
import { FrameError } from "../../lib/frames.ts";
import type { WorkerExit } from "../worker-driver.ts";

/** What is told of workers. */
export interface WorkerEvents {
  exited(exit: WorkerExit): void;
  started(head: StartedHead): void;
  bootFailed(workerId: string, failure: object): void;
  printed(kind: "log" | "programPrinted", workerId: string, stream: "stdout" | "stderr", text: string): void;
}

/** Throws FrameError. What is of no worker, or not known, is nobody's. */
export function tellOfWorker(
  { event, workerId = "", stream = "stdout", of }: EventHead,
  body: Buffer,
  to: WorkerEvents,
): void {
  const given = (of ?? {}) as { head?: unknown; failure?: unknown };
  if (event === "log" || event === "programPrinted") {
    to.printed(event, workerId, stream, body.toString("utf8", 0, LOG_FRAME_MAX_BYTES));
  } else if (event === "exited") to.exited({ ...exitOf(checked(of, hostWorkerExit)), workerId });
  else if (event === "started") to.started({ ...checked(given.head, startedHead), worker: workerId });
  else if (event === "bootFailed") to.bootFailed(workerId, checked(given.failure, bootFailureHead));
}

export function exitOf({ cause, ...exit }: ReturnType<typeof hostWorkerExit>): WorkerExit {
  return cause === undefined ? exit : { ...exit, cause };
}

export function checked<T>(value: unknown, check: (value: unknown) => T): T {
  try {
    return check(value);
  } catch (error) {
    throw new FrameError(`an EVENT is wrong: ${(error as Error).message}`);
  }
}

export function readBody<T>(body: Buffer, check: (value: unknown) => T): T {
  try {
    return check(JSON.parse(body.toString("utf8")));
  } catch (error) {
    throw new FrameError(`the body of STATE is wrong: ${(error as Error).message}`);
  }
}

/** What an agent tells about itself, as often as one machine may. */
export class ToldLines {
  #from = Number.NEGATIVE_INFINITY;
  #count = 0;

  next(of: unknown, tell: (line: string, facts: string) => void): void {
    const now = performance.now();
    if (now - this.#from > 60_000) {
      this.#from = now;
      this.#count = 0;
    }
    if (++this.#count > HOST_TOLD_PER_MINUTE_MAX) return;
    const { line = "", facts } = (of ?? {}) as { line?: unknown; facts?: unknown };
    const some = typeof facts === "object" && facts !== null ? facts : {};
    tell(String(line).slice(0, 1_000), JSON.stringify(some).slice(0, 4_000));
  }
}
