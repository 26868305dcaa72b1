/** Reads that several fields of one request share, each done once. Lives as long as its request. */
import type { App, Build, Endpoint, Environment, Store, Worker } from "../store/store.ts";

export interface RequestLoader {
  build(id: string): Promise<Build | undefined>;
  environment(id: string): Promise<Environment | undefined>;
  app(id: string): Promise<App | undefined>;
  apps(): Promise<App[]>;
  environmentsOf(appId: string): Promise<Environment[]>;
  endpoints(): Promise<Endpoint[]>;
  workersOf(endpointId: string): Promise<Worker[]>;
}

export function createRequestLoader(store: Store): RequestLoader {
  const builds = new Map<string, Promise<Build | undefined>>();
  const environments = new Map<string, Promise<Environment | undefined>>();
  const places = new Map<string, Promise<Environment[]>>();
  let apps: Promise<Map<string, App>> | undefined;
  let endpoints: Promise<Endpoint[]> | undefined;
  let workers: Promise<Map<string, Worker[]>> | undefined;
  const appsById = () => {
    apps ??= store.apps.list().then((list) => new Map(list.map((app) => [app.id, app])));
    return apps;
  };
  return {
    build: (id) => remember(builds, id, () => store.builds.find(id)),
    environment: (id) => remember(environments, id, () => store.environments.find(id)),
    app: async (id) => (await appsById()).get(id),
    apps: async () => [...(await appsById()).values()],
    environmentsOf: (appId) => remember(places, appId, () => store.environments.listByApp(appId)),
    endpoints() {
      endpoints ??= store.endpoints.list();
      return endpoints;
    },
    async workersOf(endpointId) {
      workers ??= store.workers.list().then((list) => Map.groupBy(list, (worker) => worker.endpointId));
      return (await workers).get(endpointId) ?? [];
    },
  };
}

function remember<T>(known: Map<string, T>, id: string, load: () => T): T {
  let value = known.get(id);
  if (value === undefined) {
    value = load();
    known.set(id, value);
  }
  return value;
}
