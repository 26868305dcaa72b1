/** What an agent's frames say, checked: it may say anything. */
import type { hostWorkerExit } from "../../domain/host-protocol.ts";
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
