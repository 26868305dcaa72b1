import { ALERT_KINDS, isAlertKind } from "../../domain/alert.ts";
import { boundTo } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { ALERTS_MAX, WEBHOOK_MAX_CHARS } from "../../domain/limits.ts";
import type { AlertRecord } from "../../store/alerts.ts";
import { audit } from "../audit.ts";
import { requireEnvironment, requireReach, sees } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { randomId } from "../ids.ts";
import { knownEndpoint, knownEnvironment } from "../known.ts";

interface AlertInput {
  readonly kind: string;
  readonly url: string;
  readonly app?: string | null;
  readonly environment?: string | null;
  readonly endpointId?: string | null;
  readonly threshold?: number | null;
}

/** Those of the place that the key sees. */
export async function alerts(_args: unknown, context: RequestContext): Promise<AlertRecord[]> {
  return (await context.store.alerts.list()).filter((alert) => isSeen(alert, context));
}

function isSeen({ environmentId, endpointId }: AlertRecord, { principal }: RequestContext): boolean {
  if (boundTo(principal) === undefined) return true;
  if (principal.endpointId) return principal.endpointId === endpointId;
  return environmentId !== null && sees(principal, environmentId);
}

/** Throws BAD_INPUT, NOT_FOUND, ENDPOINT_NOT_FOUND, FORBIDDEN, CONFLICT. */
export async function createAlert({ input }: { input: AlertInput }, context: RequestContext): Promise<AlertRecord> {
  const { kind, url } = input;
  if (!isAlertKind(kind)) {
    throw new SvcError("BAD_INPUT", `${JSON.stringify(kind.slice(0, 100))} is no kind of alert.`, {
      help: `There are ${Object.keys(ALERT_KINDS).join(", ")}.`,
    });
  }
  const protocol = url.length > WEBHOOK_MAX_CHARS ? undefined : URL.parse(url)?.protocol;
  if (protocol !== "https:" && protocol !== "http:") {
    throw new SvcError("BAD_INPUT", `The url must be an http or https URL of at most ${WEBHOOK_MAX_CHARS} characters.`);
  }
  const usual = ALERT_KINDS[kind];
  const threshold = input.threshold ?? usual.threshold;
  const isPercent = usual.unit === "%";
  if (
    !(threshold > 0 && (!isPercent || threshold <= 100)) ||
    (!usual.takesThreshold && threshold !== usual.threshold)
  ) {
    const help = usual.takesThreshold
      ? `Give more than 0 ${usual.unit}${isPercent ? ", at most 100" : ""}.`
      : "It takes none.";
    throw new SvcError("BAD_INPUT", `${threshold} is no threshold of ${kind}.`, { help });
  }
  const place = await placeOf(input, context);
  if (kind === "disk.full" && (place.environmentId !== null || place.endpointId !== null)) {
    throw new SvcError("BAD_INPUT", "disk.full is about the whole platform: give no place.");
  }
  return context.store.transaction(async (store) => {
    if ((await store.alerts.list()).length >= ALERTS_MAX) {
      throw new SvcError("CONFLICT", `A platform has at most ${ALERTS_MAX} alerts.`, { help: "Remove one first." });
    }
    const now = context.clock();
    const alert: AlertRecord = {
      ...{ id: randomId(context.random), kind, url, ...place, threshold, createdAt: now },
      ...{ firing: false, lastAt: null, lastDelivery: "", messages: [], failures: 0, dueAt: now },
    };
    await store.alerts.insert(alert);
    await audit(store, context, { action: "alert.create", target: `${kind} (${alert.id})`, detail: shownUrl(url) });
    return alert;
  });
}

async function placeOf({ app, environment, endpointId }: AlertInput, context: RequestContext) {
  if (Boolean(app) !== Boolean(environment)) throw new SvcError("BAD_INPUT", "Give app and environment, or neither.");
  if (endpointId) {
    const endpoint = await knownEndpoint(context.store, endpointId);
    requireReach(context, endpoint);
    return { endpointId, environmentId: endpoint.environmentId };
  }
  const id = app && environment ? (await knownEnvironment(context.store, app, environment)).id : null;
  requireEnvironment(context, id ?? undefined);
  return { endpointId: null, environmentId: id };
}

/** Sends a test now. Resolves "delivered", or why not. */
export async function testAlert({ id }: { id: string }, context: RequestContext): Promise<string> {
  return context.testAlert(await knownAlert(id, context));
}

/** Throws NOT_FOUND. */
export async function removeAlert({ id }: { id: string }, context: RequestContext): Promise<boolean> {
  const { kind } = await knownAlert(id, context);
  return context.store.transaction(async (store) => {
    await audit(store, context, { action: "alert.remove", target: `${kind} (${id})` });
    return store.alerts.delete(id);
  });
}

async function knownAlert(id: string, context: RequestContext): Promise<AlertRecord> {
  const alert = await context.store.alerts.find(id);
  if (alert !== undefined && isSeen(alert, context)) return alert;
  throw new SvcError("NOT_FOUND", `There is no alert "${id.slice(0, 100)}".`, { help: "svc alert list shows all." });
}

/** Fields of the type Alert that are not columns. */
export const alertFields = {
  url: ({ url }: AlertRecord) => shownUrl(url),
  async endpoint({ endpointId }: AlertRecord, _args: unknown, { store }: RequestContext) {
    return endpointId === null ? null : ((await store.endpoints.find(endpointId))?.name ?? endpointId);
  },
  async app({ environmentId }: AlertRecord, _args: unknown, { loader }: RequestContext) {
    const environment = environmentId === null ? undefined : await loader.environment(environmentId);
    return environment === undefined ? null : ((await loader.app(environment.appId))?.name ?? null);
  },
  async environment({ environmentId }: AlertRecord, _args: unknown, { loader }: RequestContext) {
    return environmentId === null ? null : ((await loader.environment(environmentId))?.name ?? null);
  },
};

/** Paths and queries of webhooks are often all that keeps others out of them. */
function shownUrl(url: string): string {
  return `${URL.parse(url)?.origin ?? ""}/…`;
}
