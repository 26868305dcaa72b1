/** The START of a worker: the same for every driver of launchers but for where things lie. */
import type { Share } from "../domain/capacity.ts";
import { RECONNECT_MAX_MS } from "../domain/limits.ts";
import { zygoteKey } from "../domain/placement.ts";
import type { ExitedHead, StartHead } from "../domain/worker-protocol.ts";
import type { WorkerExit, WorkerSpec } from "./worker-driver.ts";

const GB = 1024 ** 3;

/** As the worker sees it. */
type Surroundings = Pick<
  StartHead,
  | "python"
  | "handler"
  | "paths"
  | "env"
  | "socket"
  | "ahead"
  | "platformUrl"
  | "gpu"
  | "tempDir"
  | "isolation"
  | "hidden"
  | "writable"
  | "uid"
  | "gid"
  | "volumes"
  | "groups"
>;

export function startHead(spec: WorkerSpec, share: Share, surroundings: Surroundings): StartHead {
  const { image } = spec;
  return {
    worker: spec.workerId,
    token: spec.token,
    zygote: zygoteKey(image.endpointId, spec.revision),
    boot: image.bootType,
    endpoint: {
      id: image.endpointId,
      name: image.endpointName,
      app: spec.appName,
      environment: spec.environmentName,
      kind: spec.kind,
    },
    concurrency: spec.maxConcurrency,
    machine: spec.instanceIds || "a GPU worker",
    ...limitsOf(share),
    reconnectMs: RECONNECT_MAX_MS,
    share,
    ...surroundings,
  };
}

/** What a worker with this share may use. */
export function limitsOf({ memoryGb, vcpus }: Share): Pick<StartHead, "memoryBytes" | "vcpus"> {
  return { memoryBytes: Math.floor(memoryGb * GB), vcpus };
}

/** What a launcher said of a worker's end, with its cause in words. */
export function workerExit({ worker, code, signal, reason, cause }: ExitedHead): WorkerExit {
  const words = signal !== null ? `killed by ${signal}` : `exited with code ${code}`;
  return { workerId: worker, code, signal, reason: reason ?? words, cause };
}
