/** What a caller names, found or refused. */
import { SvcError } from "../domain/errors.ts";
import { isRemovedName, nearest } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import type { App, Endpoint, Environment, Store } from "../store/store.ts";

/** Throws ENDPOINT_NOT_FOUND, also for an endpoint that only drains. */
export async function knownEndpoint(store: Store, id: string): Promise<Endpoint> {
  const endpoint = await store.endpoints.find(id);
  if (endpoint !== undefined && !isRemoved(endpoint)) return endpoint;
  throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint with the id "${id.slice(0, 80)}".`, {
    help: "List them with `svc undeploy list`.",
  });
}

/** Throws NOT_FOUND with the nearest names, also for an app that is being removed. */
export async function knownApp(store: Store, name: string): Promise<App> {
  const apps = (await store.apps.list()).filter((app) => !isRemovedName(app.name));
  return apps.find((app) => app.name === name) ?? notFound(`app "${name}"`, name, apps, "svc app list shows all.");
}

/** Throws NOT_FOUND with the nearest names. */
export async function knownEnvironment(store: Store, appName: string, name: string): Promise<Environment> {
  const app = await knownApp(store, appName);
  const all = (await store.environments.listByApp(app.id)).filter((one) => !isRemovedName(one.name));
  const found = all.find((environment) => environment.name === name);
  const what = `environment "${name}" in the app "${appName}"`;
  return found ?? notFound(what, name, all, `svc env list --app ${appName} shows all.`);
}

function notFound(what: string, name: string, all: readonly { readonly name: string }[], otherwise: string): never {
  const close = nearest(
    name,
    all.map((one) => one.name),
  );
  throw new SvcError("NOT_FOUND", `There is no ${what}.`, {
    help: close.length > 0 ? `Did you mean ${close.join(" or ")}?` : otherwise,
  });
}

/** `record[key]` when the record itself has it: "constructor" is a valid endpoint name. */
export function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
