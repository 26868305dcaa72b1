/** After a deploy: waits until every endpoint takes calls with the new code, and says what it is waiting for. */
import { isAway } from "../../client/answer-error.ts";
import type { ControlPlane } from "../../client/control-plane.ts";
import type { Deployment, EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { CLIENT_PATIENCE_MS, DEPLOY_READY_MAX_MS } from "../../domain/limits.ts";
import { reasonText } from "../endpoints-view.ts";
import { poll } from "../poll.ts";
import type { Terminal } from "../terminal.ts";

/** What somebody does about endpoints that cannot run: of a deploy unless it is said otherwise. */
export interface FailureWords {
  /** Before the reasons. */
  readonly failed: string;
  readonly help: string;
}

/**
 * Resolves with the endpoints as they are then. Throws BOOT_FAILED with the reasons when one is blocked. A platform that is started
 * again meanwhile is waited for.
 */
export async function waitReady(
  terminal: Terminal,
  controlPlane: ControlPlane,
  deployment: Deployment,
  words?: FailureWords,
): Promise<readonly EndpointRecord[]> {
  const ids = new Set(deployment.endpoints.map((endpoint) => endpoint.id));
  if (deployment.endpoints.every(isSettled)) return deployment.endpoints;
  const progress = await terminal.progress("Waiting until the endpoints are ready");
  let answeredAt = performance.now();
  try {
    const ready = await poll(DEPLOY_READY_MAX_MS, async () => {
      const app = await controlPlane.app(deployment.app).catch((error: unknown) => {
        if (!isAway(error)) throw error;
        if (performance.now() - answeredAt < CLIENT_PATIENCE_MS) return undefined;
        throw new SvcError(error.code, error.message, {
          help: "What was deployed stays. When the platform is back, svc status says what each endpoint waits for.",
          cause: error,
        });
      });
      if (app === undefined) return void progress.update("The platform does not answer, and is asked again");
      answeredAt = performance.now();
      const environment = app?.environments.find((candidate) => candidate.name === deployment.environment);
      const endpoints = environment?.endpoints.filter((endpoint) => ids.has(endpoint.id)) ?? [];
      refuseBlocked(endpoints, words);
      const waiting = endpoints.filter((endpoint) => !isSettled(endpoint));
      if (waiting.length === 0) return endpoints;
      progress.update(waiting.map(waitingFor).join("; "));
      return undefined;
    });
    if (ready !== undefined) return ready;
    throw new SvcError("BOOT_FAILED", `Not every endpoint was ready after ${DEPLOY_READY_MAX_MS / 60_000} minutes.`, {
      help: "svc status says what each waits for. The deploy itself is done.",
    });
  } finally {
    progress.done();
  }
}

/** Takes calls, or is meant not to; and no worker of an older build takes calls any more, unless no machine is there for a newer one. */
function isSettled({ status, pods }: EndpointRecord): boolean {
  if (status.state === "STOPPED") return true;
  if (status.state === "READY" && status.reason !== "" && pods.every((pod) => !pod.current)) return true;
  const oldTakesCalls = pods.some((pod) => !pod.current && pod.state !== "DRAINING" && pod.state !== "FAILED");
  return status.state === "READY" && !oldTakesCalls;
}

function refuseBlocked(endpoints: readonly EndpointRecord[], words?: FailureWords): void {
  const blocked = endpoints.filter((endpoint) => endpoint.status.state === "BLOCKED");
  if (blocked.length === 0) return;
  const lines = blocked.map(reasonText);
  const failed = words?.failed ?? `Deployed, but ${blocked.length === 1 ? "an endpoint" : "endpoints"} cannot run.`;
  throw new SvcError("BOOT_FAILED", `${failed}\n${lines.join("\n")}`, {
    help: words?.help ?? "Correct what it says and run svc deploy again, or go back: svc rollback.",
  });
}

function waitingFor({ name, status, pods }: EndpointRecord): string {
  const last = status.progress.at(-1);
  if (last !== undefined) return `${name}: ${last}`;
  return pods.some((pod) => !pod.current) ? `${name}: replacing workers` : `${name}: preparing`;
}
