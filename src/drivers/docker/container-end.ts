/** A container's end, which is noticed also when the engine was away meanwhile, and its removal. */
import { setTimeout as delay } from "node:timers/promises";
import { CONTAINER_CALL_RETRY_MS } from "../../domain/limits.ts";
import { type Container, hasStatus } from "./engine.ts";

/** Resolves true when it does not run any more, false once `signal` says that nobody wants to know. */
export async function ended(container: Container, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    try {
      await container.wait({ condition: "not-running", abortSignal: signal });
      break;
    } catch (error) {
      if (signal.aborted || hasStatus(error, 404)) break;
      await delay(CONTAINER_CALL_RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }
  return !signal.aborted;
}

export async function removeContainer(container: Container | undefined): Promise<void> {
  await container?.remove({ force: true, v: true }).catch(() => {});
}
