/** Makes the changes of a deploy inside the caller's transaction: all of them or none. */
import type { Environment, Store } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import { randomId } from "../ids.ts";
import { removeEndpoint } from "../remove-endpoint.ts";
import { revisionOf } from "../revision.ts";
import type { BuildRequest, DesiredEndpoint } from "./build-request.ts";
import type { Change } from "./diff.ts";
import type { Target } from "./target.ts";

export interface Applied {
  readonly buildId: string;
  readonly environmentId: string;
  /** Endpoints that are gone already, whose jobs are to be forgotten after the commit. */
  readonly deleted: readonly string[];
}

type Means = Pick<RequestContext, "clock" | "random">;

export async function applyBuild(store: Store, request: BuildRequest, target: Target, means: Means): Promise<Applied> {
  const environment = target.environment ?? (await makeEnvironment(store, request, target, means));
  const buildId = randomId(means.random);
  const now = means.clock();
  await store.builds.insert({
    id: buildId,
    environmentId: environment.id,
    manifest: request.manifest!,
    createdAt: now,
  });
  const deleted: string[] = [];
  // Those that leave go first: a new endpoint may need the name.
  for (const change of target.changes) {
    if (change.action !== "remove") continue;
    if ((await removeEndpoint(store, change.current, now)) === "deleted") deleted.push(change.current.id);
  }
  for (const change of target.changes) await applyChange(store, change, environment, buildId, means);
  await store.environments.setBuild(environment.id, buildId);
  return { buildId, environmentId: environment.id, deleted };
}

async function makeEnvironment(store: Store, request: BuildRequest, { app }: Target, means: Means) {
  const createdAt = means.clock();
  const appId = app?.id ?? randomId(means.random);
  if (app === undefined) await store.apps.insert({ id: appId, name: request.app, createdAt });
  const environment = { id: randomId(means.random), appId, name: request.environment, createdAt, buildId: null };
  await store.environments.insert(environment);
  return environment;
}

async function applyChange(store: Store, change: Change, environment: Environment, buildId: string, means: Means) {
  const now = means.clock();
  if (change.action === "create") {
    await store.endpoints.insert(newEndpoint(change.desired, environment.id, buildId, randomId(means.random), now));
  } else if (change.action === "update") {
    const { settings, env, kind, code } = change.desired;
    const revision = revisionOf({ ...settings, locations: change.current.locations, env, kind }, code);
    const changes = { ...settings, env, buildId, revision, reason: "", updatedAt: now };
    await store.endpoints.update(change.current.id, changes);
  } else if (change.action === "unchanged") {
    await store.endpoints.update(change.current.id, { buildId });
  }
}

function newEndpoint(desired: DesiredEndpoint, environmentId: string, buildId: string, id: string, now: number) {
  const settings = { ...desired.settings, locations: "" };
  const { name, kind, env, code } = desired;
  return {
    ...settings,
    id,
    name,
    kind,
    environmentId,
    buildId,
    templateId: "",
    env,
    revision: revisionOf({ ...settings, kind, env }, code),
    workersDesired: settings.workersMin,
    reason: "",
    createdAt: now,
    updatedAt: now,
  };
}
