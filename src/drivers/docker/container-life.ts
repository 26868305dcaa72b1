/** The life of a container, of whatever kind: made from an image that may be gone, ended also while the engine was away, removed. */
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerCreateOptions } from "dockerode";
import { SvcError } from "../../domain/errors.ts";
import { CONTAINER_CALL_RETRY_MS } from "../../domain/limits.ts";
import { answered, type Container, type Engine, engineWords, hasStatus } from "./engine.ts";

/** One that is made too late is removed. Throws IMAGE_MISSING when its image was removed meanwhile: it has to be prepared again. */
export async function createContainer(engine: Engine, options: ContainerCreateOptions): Promise<Container> {
  try {
    return await answered(engine.createContainer(options), removeContainer);
  } catch (error) {
    if (!hasStatus(error, 404) || !/image/i.test(engineWords(error))) throw error;
    throw new SvcError("IMAGE_MISSING", "The endpoint's image is not on this machine any more.", {
      help: "It is made again, or pulled.",
      cause: error,
    });
  }
}

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
  if (container !== undefined) await answered(container.remove({ force: true, v: true })).catch(() => {});
}
