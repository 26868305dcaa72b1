/** The HTTP side for those who run the platform: the management API, and the console for browsers. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ConsoleLinks } from "../console/links.ts";
import { Console } from "../console/server.ts";
import type { ControlPlaneDeps } from "../control-plane/context.ts";
import { createControlPlane } from "../control-plane/server.ts";
import { allEmulateGpu, type Fleet, sizeProblemsAmong } from "../domain/placement.ts";
import type { Log } from "../lib/log.ts";
import type { Config } from "./config.ts";
import type { LocalDriver } from "./driver.ts";

type Made = "openConsole" | "cannotGive" | "emulatesGpu" | "config" | "random" | "log";

interface ManagementNeeds extends Omit<ControlPlaneDeps, Made> {
  readonly config: Config;
  readonly publicUrl: () => string;
  readonly driver: Pick<LocalDriver, "cannotGive">;
  /** What workers can be placed on, as it is now. */
  readonly fleet: () => Fleet;
  readonly log: Log;
}

/** Answers a request that is not for the gateway; never rejects. */
export function makeManagement({ config, publicUrl, driver, fleet, ...needs }: ManagementNeeds) {
  const { domain, workerQuota, trustedProxies } = config;
  const log = { error: (message: string, cause: unknown) => needs.log.error(message, { cause }) };
  const links = new ConsoleLinks(needs.now);
  const pages = new Console({ ...needs, links, trustedProxies: trustedProxies ?? [], log });
  const controlPlane = createControlPlane({
    ...needs,
    openConsole: (principal) => links.open(principal),
    cannotGive: (wishes) => [...driver.cannotGive(wishes), ...sizeProblemsAmong(fleet(), wishes.instanceIds)],
    emulatesGpu: (gpuIds) => allEmulateGpu(fleet(), gpuIds),
    config: { publicUrl, domain, workerQuota, trustedProxies },
    random: randomBytes,
    log,
  });
  return (request: IncomingMessage, response: ServerResponse) =>
    pages.answer(request, response) ?? controlPlane(request, response);
}
