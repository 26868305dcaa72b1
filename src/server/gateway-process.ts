/**
 * One gateway process: it dials its owner, listens on the port that it shares with others, and ends when the owner says so, when the
 * link breaks, or when the owner's process is gone.
 */

import { SvcError } from "../domain/errors.ts";
import { GATEWAY_END_MAX_MS, LOG_BACKLOG_MAX_BYTES } from "../domain/limits.ts";
import { PassOn } from "../gateway/pass-on.ts";
import { dialPrivately } from "../gateway/private-calls.ts";
import { createGateway } from "../gateway/server.ts";
import { dialOwner } from "../gateway-link/dial.ts";
import { keysOfOwner, ownerDeps } from "../gateway-link/owner-deps.ts";
import { keysIn } from "../gateway-link/settings.ts";
import { createLog, type Log, lineWriter } from "../lib/log.ts";
import { createOwner } from "../lib/own.ts";
import { openFilesMax } from "../lib/process-limits.ts";
import { timeOrderedUuid } from "../lib/uuid.ts";
import { checkKeys, createSignerFinder } from "../store/key-check.ts";
import { openTraces } from "../telemetry/tracing.ts";
import { connectionsMax } from "./connections-max.ts";

/** What its owner sends it first. */
export interface GatewayOrders {
  readonly linkPath: string;
  readonly callsPath: string;
  readonly secret: string;
  readonly host: string;
  readonly port: number;
}

/** What it says then. */
export type GatewayReport =
  | { readonly listens: true }
  | { readonly listens: false; readonly code: string; readonly message: string };

/** Runs until the process ends. */
export async function runGatewayProcess(exit: (code: number) => void): Promise<void> {
  // Signals of a terminal or of a service manager reach the owner, which ends its gateways in order.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const) process.on(signal, () => {});
  process.on("disconnect", () => exit(1));
  const log = createLog(lineWriter(process.stderr.fd, LOG_BACKLOG_MAX_BYTES), () => new Date());
  process.on("unhandledRejection", (error) =>
    log.error("a defect: nobody expected this failure; please report it", { error }),
  );
  const orders = await new Promise<GatewayOrders>((resolve) => {
    process.once("message", (message) => resolve(message as GatewayOrders));
  });
  const report = (said: GatewayReport) => process.send?.(said);
  try {
    await serve(orders, log, exit);
    report({ listens: true });
  } catch (error) {
    const { code = "INTERNAL", message } = error as { code?: string; message: string };
    report({ listens: false, code, message });
    exit(1);
  }
}

async function serve(orders: GatewayOrders, log: Log, exit: (code: number) => void): Promise<void> {
  const { link, settings } = await dialOwner(orders.linkPath, orders.secret);
  const traces = settings.traces
    ? await openTraces({ clock: Date.now, told: (line, facts) => log.info(line, facts) })
    : undefined;
  const own = createOwner(log, (error) => error instanceof SvcError);
  const keys = keysOfOwner(link);
  link.watch();
  const isSure = () => link.isSure;
  const secret = Buffer.from(orders.secret, "base64url");
  const passOn = new PassOn((caller) => dialPrivately(orders.callsPath, secret, caller), log);
  const { domain, requestTimeoutMs, trustedProxies, retention, signingKeys, ownerKeys } = settings;
  const connections = connectionsMax(openFilesMax());
  const gateway = createGateway({
    ...ownerDeps(link, settings, traces),
    keys: checkKeys(keys, Date.now, isSure),
    ...(signingKeys !== undefined && {
      signing: { keys: keysIn(signingKeys), find: createSignerFinder(keys, Date.now, isSure) },
    }),
    ownerKeys: keysIn(ownerKeys),
    newId: () => timeOrderedUuid(),
    now: Date.now,
    settings: {
      domain,
      requestTimeoutMs,
      ...(trustedProxies !== undefined && { trustedProxies }),
      ...(retention !== undefined && { retention }),
      ...(connections !== undefined && { connectionsMax: connections }),
    },
    acceptFailed: (error) => log.error("a connection could not be accepted", { error }),
    fallback: passOn.answer,
    log,
  });
  const end = async (graceMs: number) => {
    await gateway.close(graceMs);
    await traces?.close();
    exit(0);
  };
  link.onClose = (graceMs) => own("ending a gateway", end(graceMs));
  link.onClosed = (reason) => {
    log.error("a gateway lost its link and ends", { reason });
    setTimeout(() => exit(1), GATEWAY_END_MAX_MS);
    own("ending a gateway", end(0));
  };
  await gateway.listen(orders.host, orders.port, true);
}
