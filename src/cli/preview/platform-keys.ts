import type { Claim } from "./claim.ts";
import { type Network, previewLabels } from "./engine.ts";

/** More than anybody declares: a preview has no quota, and promises whatever the endpoints ask for. */
const WITHOUT_BOUND = "100000";
const OVERCOMMIT = "1000";

/** Configuration of the preview's platform (docs/reference/config.md). */
export function platformKeys(claim: Claim, network: Network, endpoints: readonly string[]): Record<string, string> {
  return {
    SVC_DRIVER: "docker",
    SVC_DATA_DIR: claim.folder,
    SVC_HOST: "127.0.0.1",
    SVC_PORT: "0",
    SVC_WORKER_QUOTA: WITHOUT_BOUND,
    SVC_CPU_OVERCOMMIT: OVERCOMMIT,
    SVC_MEMORY_OVERCOMMIT: OVERCOMMIT,
    // An endpoint that asks for a GPU this machine has not runs on its CPU, and says so.
    SVC_EMULATE_GPU: "1",
    SVC_WEBHOOK_PRIVATE: "1",
    SVC_DOCKER_NETWORK: network.name,
    SVC_DOCKER_LABELS: pairs(Object.entries(previewLabels(claim))),
    SVC_DOCKER_HOSTS: pairs(endpoints.map((name) => [name, network.gateway])),
  };
}

function pairs(entries: readonly (readonly [string, string])[]): string {
  return entries.map(([key, value]) => `${key}=${value}`).join(",");
}
