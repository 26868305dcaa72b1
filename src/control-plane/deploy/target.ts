/** The app and environment a build goes to, as the store has them now, and what the build would change there. */
import { boundTo } from "../../domain/api-key.ts";
import type { PlatformWishes } from "../../domain/driver-offers.ts";
import { environmentProblem, secretNames } from "../../domain/env.ts";
import { buildsAsRoot } from "../../domain/image-steps.ts";
import { type QuotaHolder, quotaProblem } from "../../domain/quota.ts";
import { isRemoved } from "../../domain/removal.ts";
import { sealedBytes } from "../../lib/sealed-text.ts";
import type { App, BriefEndpoint, Build, Environment, Store } from "../../store/store.ts";
import type { ControlPlaneDeps, RequestContext } from "../context.ts";
import { codeOf, type SecretTimes, secretTimes } from "../revision.ts";
import type { BuildRequest, DesiredEndpoint, Problem } from "./build-request.ts";
import { type Change, type CurrentEndpoint, diffEnvironment } from "./diff.ts";

export interface Target {
  readonly app: App | undefined;
  readonly environment: Environment | undefined;
  readonly changes: readonly Change[];
  readonly secrets: SecretTimes;
  readonly problems: readonly Problem[];
}

/** What the platform as a whole allows an endpoint. */
export type Allowance = Pick<ControlPlaneDeps, "config" | "cannotGive"> & Pick<RequestContext, "principal">;

export async function readTarget(store: Store, request: BuildRequest, allowance: Allowance): Promise<Target> {
  const app = await store.apps.findByName(request.app);
  const environments = app === undefined ? [] : await store.environments.listByApp(app.id);
  const environment = environments.find(({ name }) => name === request.environment);
  const current = environment === undefined ? [] : await currentEndpoints(store, environment.id);
  const changes = diffEnvironment(request.desired, current, request.keepRemoved);
  const overQuota = quotaProblem(
    endpointsAfter(await store.endpoints.listBriefly(), changes),
    allowance.config.workerQuota,
  );
  const secrets = await secretTimes(store, environment?.id);
  const problems: Problem[] = [...request.problems, ...secretProblems(request, secrets)];
  for (const { name, settings, wishes } of request.desired) {
    problems.push(...driverProblemsOf(name, { ...settings, ...wishes }, allowance).map(asProblem));
    problems.push(...rootProblems(name, { ...settings, ...wishes }, allowance));
  }
  problems.push(...(await environmentProblems(store, request, environment)));
  if (overQuota !== undefined) problems.push({ code: "QUOTA_EXCEEDED", message: overQuota });
  return { app, environment, changes, secrets, problems };
}

/** What its workers could not have here, in sentences that name the endpoint. */
export function driverProblemsOf(name: string, wishes: PlatformWishes, { cannotGive }: Pick<Allowance, "cannotGive">) {
  return cannotGive(wishes).map((sentence) => `Endpoint "${name}": ${sentence}`);
}

/** Lines that run as root of the engine are for those who are trusted with the whole platform. */
function rootProblems(
  name: string,
  { imageName, systemDependencies, imageSteps }: DesiredEndpoint["wishes"] & Pick<PlatformWishes, "imageName">,
  { principal }: Allowance,
): Problem[] {
  const bound = boundTo(principal);
  if (bound === undefined || !buildsAsRoot(imageName, systemDependencies, imageSteps)) return [];
  const what =
    "and building the image runs code of the deploy as root of a container: .run(), or apt of an image of your own";
  return [
    {
      code: "FORBIDDEN",
      message: `Endpoint "${name}": ${bound}, ${what}. Use Image.debian() with .apt() and .env(), or a key that is bound to nothing.`,
    },
  ];
}

function asProblem(message: string): Problem {
  return { code: "INVALID_SETTING", message };
}

function secretProblems({ app, environment, desired }: BuildRequest, secrets: SecretTimes): Problem[] {
  return desired.flatMap(({ name, env }) =>
    secretNames(env)
      .filter((secret) => !secrets.has(secret))
      .map((secret): Problem => {
        const message = `Endpoint "${name}" uses the secret "${secret}", which ${app}/${environment} does not have.`;
        const command = `svc secret set ${secret} --app ${app} --env ${environment}`;
        return { code: "INVALID_SETTING", message: `${message} Set it: ${command}` };
      }),
  );
}

async function environmentProblems(
  store: Store,
  { desired }: BuildRequest,
  environment: Environment | undefined,
): Promise<Problem[]> {
  const stored = environment === undefined ? [] : await store.secrets.listByEnvironment(environment.id);
  const sizes = new Map(stored.map(({ name, sealed }) => [name, sealedBytes(sealed)]));
  return desired.flatMap(({ name, env }) => {
    const message = environmentProblem(name, env, (secret) => sizes.get(secret) ?? 0);
    return message === undefined ? [] : [{ code: "INVALID_SETTING", message }];
  });
}

async function currentEndpoints(store: Store, environmentId: string): Promise<CurrentEndpoint[]> {
  const builds = new Map<string, Build | undefined>();
  const current: CurrentEndpoint[] = [];
  for (const endpoint of await store.endpoints.listByEnvironment(environmentId)) {
    if (isRemoved(endpoint) || endpoint.buildId === null) continue;
    const { buildId, name } = endpoint;
    if (!builds.has(buildId)) builds.set(buildId, await store.builds.find(buildId));
    const build = builds.get(buildId);
    current.push({ endpoint, code: build === undefined ? null : codeOf(build.manifest, name) });
  }
  return current;
}

/** Every endpoint of the account once the changes are made. */
function endpointsAfter(all: readonly BriefEndpoint[], changes: readonly Change[]): QuotaHolder[] {
  const touched = new Set(changes.flatMap((change) => (change.action === "create" ? [] : [change.current.id])));
  return [
    ...all.filter(({ id }) => !touched.has(id)),
    ...changes.flatMap((change) => {
      if (change.action === "remove") return [];
      return [{ name: change.desired.name, workersMax: change.desired.settings.workersMax }];
    }),
  ];
}
