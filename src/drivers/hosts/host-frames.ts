/** What an agent's frames say, checked: it may say anything. */
import type { hostWorkerExit } from "../../domain/host-protocol.ts";
import { HOST_TOLD_PER_MINUTE_MAX } from "../../domain/limits.ts";
import { FrameError } from "../../lib/frames.ts";
import type { WorkerExit } from "../worker-driver.ts";

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
