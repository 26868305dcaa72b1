import type { ApiKey } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";

/** Fields of the type Key that are not columns: names of the place it is bound to. */
export const keyFields = {
  async app({ environmentId }: ApiKey, _args: unknown, { loader }: RequestContext) {
    const environment = environmentId ? await loader.environment(environmentId) : undefined;
    return environment === undefined ? null : ((await loader.app(environment.appId))?.name ?? null);
  },
  async environment({ environmentId }: ApiKey, _args: unknown, { loader }: RequestContext) {
    return environmentId ? ((await loader.environment(environmentId))?.name ?? null) : null;
  },
  async endpoint({ endpointId }: ApiKey, _args: unknown, { store }: RequestContext) {
    // Also when the endpoint is gone the key does not look unbound.
    return endpointId === null ? null : ((await store.endpoints.find(endpointId))?.name ?? endpointId);
  },
};
