/** Makes the changes of a deploy inside the caller's transaction: all of them or none. */
import { BUILDS_KEPT } from "../../domain/limits.ts";
import type { App, Environment, Store } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import { randomId } from "../ids.ts";
import { removeEndpoint } from "../removal.ts";
import { revisionOf, type SecretTimes } from "../revision.ts";
import type { BuildRequest, DesiredEndpoint } from "./build-request.ts";
import type { Change } from "./diff.ts";
import type { Target } from "./target.ts";

export interface Applied {
  readonly buildId: string;
  readonly environmentId: string;
  /** Endpoints that are gone already, whose jobs are to be forgotten after the commit. */
  readonly deleted: readonly string[];
}

type Means = Pick<RequestContext, "clock" | "random" | "principal">;

/** `earlierBuildId` is stored already; without it the build is stored as a new one. */
export async function applyBuild(
  store: Store,
  request: BuildRequest,
  target: Target,
  means: Means,
  earlierBuildId?: string,
): Promise<Applied> {
  const environment = target.environment ?? (await makeEnvironment(store, request, target.app, means));
  const now = means.clock();
  const buildId = earlierBuildId ?? randomId(means.random);
  if (earlierBuildId === undefined) {
    const env = Object.fromEntries(request.desired.map((endpoint) => [endpoint.name, endpoint.env]));
    await store.builds.insert({
      id: buildId,
      environmentId: environment.id,
      manifest: request.manifest!,
      env,
      createdAt: now,
      message: request.message,
      gitCommit: request.gitCommit,
      keyName: means.principal.name ?? "",
      verdict: { state: "pending", reason: "", at: null },
    });
  }
  const deleted: string[] = [];
  // Those that leave go first: a new endpoint may need the name.
  for (const change of target.changes) {
    if (change.action !== "remove") continue;
    if ((await removeEndpoint(store, change.current, now)) === "deleted") deleted.push(change.current.id);
  }
  for (const change of target.changes) {
    await applyChange(store, change, { environmentId: environment.id, buildId, secrets: target.secrets }, means);
  }
  await store.environments.setBuild(environment.id, buildId);
  await forgetOldBuilds(store, environment.id);
  return { buildId, environmentId: environment.id, deleted };
}

/** Keeps the newest builds and those that an endpoint runs. */
async function forgetOldBuilds(store: Store, environmentId: string): Promise<void> {
  const old = (await store.builds.listByEnvironment(environmentId)).slice(BUILDS_KEPT);
  if (old.length === 0) return;
  const used = new Set((await store.endpoints.listByEnvironment(environmentId)).map(({ buildId }) => buildId));
  for (const { id } of old) if (!used.has(id)) await store.builds.delete(id);
}

/** Makes the environment, and the app when it is missing too. */
export async function makeEnvironment(
  store: Store,
  request: { readonly app: string; readonly environment: string },
  app: App | undefined,
  means: Means,
): Promise<Environment> {
  const createdAt = means.clock();
  const appId = app?.id ?? randomId(means.random);
  if (app === undefined) await store.apps.insert({ id: appId, name: request.app, createdAt });
  const environment = { id: randomId(means.random), appId, name: request.environment, createdAt, buildId: null };
  await store.environments.insert(environment);
  return environment;
}

interface Place {
  readonly environmentId: string;
  readonly buildId: string;
  readonly secrets: SecretTimes;
}

async function applyChange(store: Store, change: Change, place: Place, means: Means) {
  const now = means.clock();
  if (change.action === "create") {
    await store.endpoints.insert(newEndpoint(change.desired, place, randomId(means.random), now));
  } else if (change.action === "update") {
    const { settings, env, schedule, kind, code } = change.desired;
    const revision = revisionOf({ ...settings, locations: change.current.locations, env, kind }, code, place.secrets);
    // Workers that go on are made of their build's layers, and so are those that join them.
    const buildId = revision === change.current.revision ? change.current.buildId : place.buildId;
    const changes = { ...settings, env, schedule, buildId, revision, reason: "", updatedAt: now };
    await store.endpoints.update(change.current.id, changes);
  }
}

function newEndpoint(desired: DesiredEndpoint, { environmentId, buildId, secrets }: Place, id: string, now: number) {
  const settings = { ...desired.settings, locations: "" };
  const { name, kind, env, schedule, code } = desired;
  return {
    ...settings,
    id,
    name,
    kind,
    environmentId,
    buildId,
    templateId: "",
    env,
    schedule,
    revision: revisionOf({ ...settings, kind, env }, code, secrets),
    reason: "",
    createdAt: now,
    updatedAt: now,
  };
}
