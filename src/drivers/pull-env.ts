/** What a program finds that pulls its jobs (docs/reference/pull-workers.md); the names are those that images people have read. */
import { PULL_PING_MS } from "../domain/limits.ts";
import type { WorkerSpec } from "./worker-driver.ts";

interface Surroundings {
  /** Base URL of the platform's HTTP side as the program reaches it. */
  readonly platformUrl: string;
  /** It has a GPU that is not emulated. */
  readonly gpu: boolean;
}

/** `$ID` and `$RUNPOD_POD_ID` are the program's to replace. What the endpoint's own variables say goes before what only has a default. */
export function pullEnv(spec: WorkerSpec, { platformUrl, gpu }: Surroundings): Readonly<Record<string, string>> {
  const { workerId, token, image, instanceIds, gpuIds } = spec;
  const base = `${platformUrl}/v2/${image.endpointId}`;
  const query = `?gpu=${encodeURIComponent(gpuIds || instanceIds)}`;
  return {
    RUNPOD_PING_INTERVAL: String(PULL_PING_MS),
    // Its checks want 4 GB of memory and an address of the internet.
    RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: "true",
    ...(gpu ? {} : { RUNPOD_SKIP_GPU_CHECK: "true" }),
    ...spec.env,
    RUNPOD_POD_ID: workerId,
    RUNPOD_POD_HOSTNAME: workerId,
    RUNPOD_ENDPOINT_ID: image.endpointId,
    RUNPOD_AI_API_KEY: token,
    RUNPOD_API_KEY: spec.env.RUNPOD_API_KEY ?? token,
    RUNPOD_ENDPOINT_BASE_URL: `${platformUrl}/v2`,
    RUNPOD_WEBHOOK_GET_JOB: `${base}/job-take/$ID${query}`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${base}/job-done/$RUNPOD_POD_ID/$ID${query}`,
    RUNPOD_WEBHOOK_POST_STREAM: `${base}/job-stream/$RUNPOD_POD_ID/$ID${query}`,
    RUNPOD_WEBHOOK_PING: `${base}/ping/$RUNPOD_POD_ID${query}`,
  };
}
