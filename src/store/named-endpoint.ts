import { isRemoved } from "../domain/removal.ts";
import type { Endpoint, Store } from "./store.ts";

/** The endpoint of these names; undefined when one of them is unknown, or when it only finishes its work. */
export async function findNamedEndpoint(
  store: Store,
  { app, environment, endpoint }: { readonly app: string; readonly environment: string; readonly endpoint: string },
): Promise<Endpoint | undefined> {
  const appId = (await store.apps.findByName(app))?.id;
  const environments = appId === undefined ? [] : await store.environments.listByApp(appId);
  const environmentId = environments.find(({ name }) => name === environment)?.id;
  const endpoints = environmentId === undefined ? [] : await store.endpoints.listByEnvironment(environmentId);
  return endpoints.find((one) => one.name === endpoint && !isRemoved(one));
}
