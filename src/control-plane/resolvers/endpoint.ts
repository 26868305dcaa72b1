import { reaches } from "../../domain/api-key.ts";
import { isRemoved } from "../../domain/removal.ts";
import { isActive } from "../../domain/worker.ts";
import type { Endpoint } from "../../store/store.ts";
import { requireScope } from "../authenticate.ts";
import type { ControlPlaneConfig, RequestContext } from "../context.ts";
import { own } from "../own.ts";

export async function endpoint(_: unknown, { id }: { id: string }, context: RequestContext): Promise<Endpoint | null> {
  requireScope(context, "read");
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

  async pods({ id, revision }: Endpoint, _args: unknown, { loader, workers }: RequestContext) {
    return (await loader.workersOf(id)).map((worker) => {
      const start = workers.startOf(worker.id);
      return {
        id: worker.id,
        desiredStatus: isActive(worker.state) ? "RUNNING" : "EXITED",
        state: worker.state,
        current: worker.revision === revision,
        reason: worker.reason,
        boot: start === undefined ? "" : start.reason === "" ? start.how : `${start.how}: ${start.reason}`,
        limits: start?.limits ?? "",
        isolation: start?.isolation ?? "",
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

  envNames: ({ env }: Endpoint) => Object.keys(env).sort(),

  emulatesGpu: ({ gpuIds }: Endpoint, _args: unknown, context: RequestContext) => context.emulatesGpu(gpuIds),

  decisions: ({ id }: Endpoint, _args: unknown, { workers }: RequestContext) => workers.decisions(id),

  status: ({ id }: Endpoint, _args: unknown, { workers }: RequestContext) => workers.health(id),
};

/** Base URL of an endpoint's calls, without a slash at its end. */
export function endpointUrl({ id, kind }: Pick<Endpoint, "id" | "kind">, config: ControlPlaneConfig): string {
  if (kind === "queue") return `${config.publicUrl()}/v2/${id}`;
  return config.domain === "" ? `${config.publicUrl()}/lb/${id}` : `https://${id}.${config.domain}`;
}
