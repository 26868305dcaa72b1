import { type Principal, reaches } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { LIVE_PREFIX } from "../../domain/names.ts";
import { isRemoved } from "../../domain/removal.ts";
import { nextTick, readSchedule, scheduleText } from "../../domain/schedule.ts";
import { isActive, type WorkerBoot } from "../../domain/worker.ts";
import type { Endpoint, Worker } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireReach, requireScope } from "../authenticate.ts";
import type { ControlPlaneConfig, RequestContext } from "../context.ts";
import { knownEndpoint, own } from "../known.ts";
import { removeEndpoint } from "../removal.ts";

export async function endpoint({ id }: { id: string }, context: RequestContext): Promise<Endpoint | null> {
  const found = await context.store.endpoints.find(id);
  if (found === undefined || isRemoved(found) || !reaches(context.principal, found)) return null;
  return found;
}

/** Fields of the type Endpoint that are not columns of the record. */
export const endpointFields = {
  url: (one: Endpoint, _args: unknown, { config }: RequestContext) => endpointUrl(one, config),

  async app({ environmentId }: Endpoint, _args: unknown, { loader }: RequestContext) {
    const environment = environmentId === null ? undefined : await loader.environment(environmentId);
    return environment === undefined ? null : ((await loader.app(environment.appId))?.name ?? null);
  },

  async environment({ environmentId }: Endpoint, _args: unknown, { loader }: RequestContext) {
    return environmentId === null ? null : ((await loader.environment(environmentId))?.name ?? null);
  },

  async pods({ id, revision }: Endpoint, _args: unknown, { loader, workers, hosts }: RequestContext) {
    const rows = await loader.workersOf(id);
    if (rows.length === 0) return [];
    const ids = rows.map((worker) => worker.id);
    const seen = await workers.seen(id, ids);
    return rows.map((worker) => {
      const { start, jobsDone, boot } = own(seen, worker.id) ?? {};
      return {
        id: worker.id,
        desiredStatus: isActive(worker.state) ? "RUNNING" : "EXITED",
        state: worker.state,
        current: worker.revision === revision,
        reason: worker.reason,
        boot: start === undefined ? "" : start.reason === "" ? start.how : `${start.how}: ${start.reason}`,
        limits: start?.limits ?? "",
        isolation: start?.isolation ?? "",
        host: hosts.hostOf(worker.id) ?? null,
        startedAt: worker.createdAt,
        readyAt: worker.readyAt,
        jobsDone: jobsDone ?? null,
        bootParts: bootParts(worker, boot),
      };
    });
  },

  async routes(one: Endpoint, _args: unknown, { loader }: RequestContext) {
    const build = one.buildId === null ? undefined : await loader.build(one.buildId);
    return build === undefined ? [] : Object.keys(own(build.manifest.routes, one.name) ?? {});
  },

  async functions(one: Endpoint, _args: unknown, { loader }: RequestContext) {
    const build = one.buildId === null ? undefined : await loader.build(one.buildId);
    return build === undefined ? [] : (own(build.manifest.resources, one.name)?.functions ?? []);
  },

  async scheduleState({ id, schedule: stored }: Endpoint, _args: unknown, { jobs, clock }: RequestContext) {
    const schedule = readSchedule(stored);
    if (schedule === undefined) return null;
    const noted = await jobs.scheduleOf(id);
    const { tick: lastTick = null, jobId: lastJobId = "", paused = false } = noted ?? {};
    const next = nextTick(schedule, Math.max(clock(), noted?.until ?? 0)) ?? null;
    return { text: scheduleText(schedule), input: schedule.input, next, paused, lastTick, lastJobId };
  },

  envNames: ({ env }: Endpoint) => Object.keys(env).sort(),

  emulatesGpu: ({ gpuIds }: Endpoint, _args: unknown, context: RequestContext) => context.emulatesGpu(gpuIds),

  decisions: ({ id }: Endpoint, _args: unknown, { workers }: RequestContext) => workers.decisions(id),

  async load({ id, kind }: Endpoint, _args: unknown, { jobs, load: loadOf, loads }: RequestContext) {
    const counts = await jobs.counts(id);
    const { waitingRequests, running } = await loadOf(id);
    return {
      waiting: counts.inQueue + counts.delayed + waitingRequests,
      running: kind === "queue" ? counts.inProgress : running,
      ...(await loads.lately(id, kind)),
    };
  },

  status: ({ id }: Endpoint, _args: unknown, { workers }: RequestContext) => workers.health(id),
};

/** Throws ENDPOINT_NOT_FOUND, CONFLICT for an endpoint without a schedule. */
export async function pauseSchedule(
  { endpointId, paused }: { endpointId: string; paused: boolean },
  context: RequestContext,
): Promise<Endpoint> {
  const endpoint = await knownEndpoint(context.store, endpointId);
  requireReach(context, endpoint);
  if (endpoint.schedule === "") {
    throw new SvcError("CONFLICT", `Endpoint "${endpoint.name}" has no schedule.`, {
      help: 'Give it one in the code: Endpoint(schedule="0 3 * * *") or Endpoint(every="10m").',
    });
  }
  const noted = await context.jobs.scheduleOf(endpointId);
  if (noted?.paused === paused) return endpoint;
  const until = Math.max(context.clock(), noted?.until ?? 0);
  await audit(context.store, context, {
    action: paused ? "schedule.pause" : "schedule.resume",
    target: `${endpoint.name} (${endpointId})`,
  });
  await context.jobs.setSchedule(endpointId, { spec: endpoint.schedule, until, paused });
  return endpoint;
}

/** Where the time of a cold start went. */
function bootParts({ createdAt, readyAt }: Worker, boot: WorkerBoot | undefined) {
  if (boot === undefined || readyAt === null) return null;
  const { bootMs, importMs } = boot;
  return { waitMs: Math.max(0, readyAt - createdAt - bootMs - importMs), bootMs, importMs };
}

/** Base URL of an endpoint's calls, without a slash at its end. */
export function endpointUrl({ id, kind }: Pick<Endpoint, "id" | "kind">, config: ControlPlaneConfig): string {
  if (kind === "queue") return `${config.publicUrl()}/v2/${id}`;
  return config.domain === "" ? `${config.publicUrl()}/lb/${id}` : `https://${id}.${config.domain}`;
}

/** Throws WORKERS_NOT_ZERO, ENDPOINT_NOT_FOUND. */
export async function deleteEndpoint({ id }: { id: string }, context: RequestContext): Promise<null> {
  const outcome = await context.store.transaction(async (store) => {
    const endpoint = await knownEndpoint(store, id);
    requireReach(context, endpoint);
    if (endpoint.workersMin !== 0 || endpoint.workersMax !== 0) {
      throw new SvcError(
        "WORKERS_NOT_ZERO",
        `Endpoint "${endpoint.name}" (${id}) cannot be deleted: workersMin is ${endpoint.workersMin} and workersMax is ` +
          `${endpoint.workersMax}, both must be 0.`,
        {
          help: `First saveEndpoint(input: {id: "${id}", workersMin: 0, workersMax: 0}), or svc undeploy ${endpoint.name}.`,
        },
      );
    }
    await audit(store, context, { action: "endpoint.delete", target: `${endpoint.name} (${id})` });
    return removeEndpoint(store, endpoint, context.clock());
  });
  if (outcome === "deleted") await context.jobs.forget(id);
  return null;
}

/**
 * The endpoint that code of one environment means by a name; in a live environment the prefix may be left out. This is
 * all that a worker's token may ask. Throws FORBIDDEN, BAD_INPUT.
 */
export async function peer({ name }: { name: string }, context: RequestContext): Promise<Endpoint | null> {
  const { principal, store } = context;
  if (principal.kind !== "worker") requireScope(context, "read");
  const environmentId = ownEnvironment(principal);
  const all = (await store.endpoints.listByEnvironment(environmentId)).filter((one) => !isRemoved(one));
  const found = all.find((one) => one.name === name) ?? (await liveEndpoint(name, environmentId, all, context));
  return found !== undefined && reaches(principal, found) ? found : null;
}

function ownEnvironment({ environmentId }: Principal): string {
  if (environmentId !== null) return environmentId;
  throw new SvcError("BAD_INPUT", "A peer is looked up in the caller's own environment, and this key has none.", {
    help: "Ask app(name) { environments { name endpoints { name url } } } instead.",
  });
}

async function liveEndpoint(
  name: string,
  environmentId: string,
  all: readonly Endpoint[],
  { loader }: RequestContext,
): Promise<Endpoint | undefined> {
  const environment = await loader.environment(environmentId);
  if (!environment?.name.startsWith(LIVE_PREFIX)) return undefined;
  return all.find((one) => one.name === `${LIVE_PREFIX}${name}`);
}
