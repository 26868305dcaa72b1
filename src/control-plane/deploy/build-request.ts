/** Reads a BuildInput: what the caller wants each endpoint to be, and everything that speaks against it. */
import { z } from "zod";
import type { DriverWishes } from "../../domain/driver-offers.ts";
import { type EndpointKind, type EndpointSettings, retriesProblem, settingsProblems } from "../../domain/endpoint.ts";
import { type EnvValues, isEnvName } from "../../domain/env.ts";
import { type ErrorCode, SvcError } from "../../domain/errors.ts";
import { imageStepsProblems, systemPackagesProblems } from "../../domain/image-steps.ts";
import { DEPLOY_MESSAGE_MAX } from "../../domain/limits.ts";
import type { Manifest, ManifestResource } from "../../domain/manifest.ts";
import { manifestSchema } from "../../domain/manifest-schema.ts";
import { isLiveName, isValidName, LIVE_PREFIX, suggestName } from "../../domain/names.ts";
import { publicRoutesProblem } from "../../domain/public-routes.ts";
import { scheduleProblems, storedSchedule } from "../../domain/schedule.ts";
import { serverProblems } from "../../domain/server.ts";
import { own } from "../known.ts";
import { codeOf, type EndpointCode } from "../revision.ts";

export interface BuildInput {
  readonly app: string;
  readonly environment: string;
  readonly manifest: unknown;
  readonly env?: unknown;
  readonly keepRemoved?: boolean | null;
  readonly message?: string | null;
  readonly gitCommit?: string | null;
}

/** An endpoint's settings as far as a manifest declares them. */
export type DeclaredSettings = Omit<EndpointSettings, "locations">;

export interface DesiredEndpoint {
  readonly name: string;
  readonly kind: EndpointKind;
  readonly settings: DeclaredSettings;
  readonly env: EnvValues;
  /** As a record keeps it. */
  readonly schedule: string;
  readonly code: EndpointCode;
  /** What else its driver must be able to give. */
  readonly wishes: Required<Pick<DriverWishes, "serverPort" | "systemDependencies" | "imageSteps">>;
}

export interface Problem {
  readonly code: ErrorCode;
  readonly message: string;
}

export interface BuildRequest {
  readonly app: string;
  readonly environment: string;
  readonly keepRemoved: boolean;
  readonly message: string;
  readonly gitCommit: string;
  /** null when it cannot be read; `problems` says why. */
  readonly manifest: Manifest | null;
  readonly desired: readonly DesiredEndpoint[];
  readonly problems: readonly Problem[];
}

const envValue = z.union([z.string(), z.strictObject({ secret: z.string() })], 'must be a text or {"secret": NAME}');
const envSchema = z.record(z.string(), z.record(z.string(), envValue)).nullish();
const GIT_COMMIT = /^([0-9a-f]{7,64}(-dirty)?)?$/;
const ROUTE_KEY = /^[A-Z]+ \/\S*$/;

export function readBuildRequest(input: BuildInput): BuildRequest {
  const problems: Problem[] = [...nameProblems("app", input.app), ...nameProblems("environment", input.environment)];
  const manifest = manifestSchema.safeParse(input.manifest);
  if (!manifest.success) problems.push(...shapeProblems("manifest", manifest.error));
  problems.push(...originProblems(input));
  const env = envSchema.safeParse(input.env);
  if (!env.success) problems.push(...shapeProblems("env", env.error));

  const variables = env.data ?? {};
  const desired: DesiredEndpoint[] = [];
  if (manifest.success) {
    const names = Object.keys(manifest.data.resources);
    if (names.length === 0) problems.push({ code: "NO_ENDPOINTS", message: "The manifest has no endpoints." });
    for (const name of names) {
      desired.push(desiredEndpoint(manifest.data, name, own(variables, name) ?? {}));
      problems.push(...nameProblems("endpoint", name), ...resourceProblems(manifest.data, name));
      problems.push(...liveProblems(input.environment, name));
      if (env.success) problems.push(...variableProblems(manifest.data, name, own(variables, name) ?? {}));
    }
    for (const name of Object.keys(variables)) {
      if (names.includes(name)) continue;
      problems.push({ code: "BAD_INPUT", message: `env names an endpoint that the manifest lacks: ${name}.` });
    }
  }
  return {
    app: input.app,
    environment: input.environment,
    keepRemoved: input.keepRemoved ?? false,
    message: input.message ?? "",
    gitCommit: input.gitCommit ?? "",
    manifest: manifest.success ? manifest.data : null,
    desired,
    problems,
  };
}

function originProblems({ message, gitCommit }: BuildInput): Problem[] {
  const problems: Problem[] = [];
  if ((message ?? "").length > DEPLOY_MESSAGE_MAX) {
    problems.push({ code: "BAD_INPUT", message: `The message has more than ${DEPLOY_MESSAGE_MAX} characters.` });
  }
  if (!GIT_COMMIT.test(gitCommit ?? "")) {
    problems.push({ code: "BAD_INPUT", message: "gitCommit must be 7 to 64 hexadecimal digits, then perhaps -dirty." });
  }
  return problems;
}

/** Throws all problems in one error, under the code of the first. */
export function refuse(problems: readonly Problem[]): void {
  const first = problems[0];
  if (first !== undefined) throw new SvcError(first.code, problems.map((problem) => problem.message).join("\n"));
}

function desiredEndpoint(manifest: Manifest, name: string, env: EnvValues): DesiredEndpoint {
  const resource = own(manifest.resources, name)!;
  return {
    name,
    kind: kindOf(resource),
    settings: {
      workersMin: resource.workersMin,
      workersMax: resource.workersMax,
      idleTimeout: resource.idleTimeout,
      gpuIds: resource.gpuIds,
      gpuCount: resource.gpuCount,
      instanceIds: resource.instanceIds,
      maxConcurrency: resource.maxConcurrency,
      executionTimeoutMs: resource.executionTimeoutMs,
      scalerType: resource.scalerType,
      scalerValue: resource.scalerValue,
      svcBootType: resource.svcBootType,
      imageName: resource.imageName,
      networkVolumeId: resource.networkVolumeId,
      cors: resource.cors,
      requestTimeoutMs: resource.requestTimeoutMs,
      retriesMax: resource.retriesMax,
      retryDelayMs: resource.retryDelayMs,
      retryBackoff: resource.retryBackoff,
      retryMaxDelayMs: resource.retryMaxDelayMs,
      publicRoutes: resource.publicRoutes,
      hosts: resource.hosts,
    },
    env,
    schedule: storedSchedule(resource.schedule),
    code: codeOf(manifest, name)!,
    wishes: {
      serverPort: resource.server?.port ?? 0,
      // A manifest of an earlier version has none.
      systemDependencies: resource.systemDependencies ?? [],
      imageSteps: resource.imageSteps ?? [],
    },
  };
}

function kindOf(resource: ManifestResource): EndpointKind {
  return resource.is_load_balanced === true ? "load-balanced" : "queue";
}

/** A live name is a valid name behind its prefix. */
export function nameProblems(what: string, name: string): Problem[] {
  if (isValidName(isLiveName(name) ? name.slice(LIVE_PREFIX.length) : name)) return [];
  const message = `"${name}" cannot name an ${what}: use a-z, 0-9, - and _, for example "${suggestName(name)}".`;
  return [{ code: "INVALID_NAME", message }];
}

/** Live endpoints follow other rules (they switch at once), so their names tell them from the others. */
function liveProblems(environment: string, name: string): Problem[] {
  if (isLiveName(environment) === isLiveName(name)) return [];
  const whose = `names that begin with "${LIVE_PREFIX}" belong to svc run`;
  const message = isLiveName(name)
    ? `The endpoint "${name}" must be called otherwise: ${whose}.`
    : `The environment "${environment}" takes no endpoint "${name}": ${whose}.`;
  return [{ code: "INVALID_NAME", message }];
}

function resourceProblems(manifest: Manifest, name: string): Problem[] {
  const resource = own(manifest.resources, name)!;
  const problems = settingsProblems({ ...resource, locations: "" }).map(
    (message): Problem => ({ code: "INVALID_SETTING", message: `Endpoint "${name}": ${message}` }),
  );
  const retries = resource.retriesMax === 0 ? undefined : retriesProblem(kindOf(resource), resource.functions);
  if (retries !== undefined) {
    problems.push({ code: "INVALID_SETTING", message: `Endpoint "${name}": ${retries.message} ${retries.help}` });
  }
  for (const message of [
    ...(resource.server === undefined ? [] : serverProblems(resource.server, resource.workersMax)),
    ...systemPackagesProblems(resource.systemDependencies),
    ...imageStepsProblems(resource.imageSteps),
  ]) {
    problems.push({ code: "INVALID_SETTING", message: `Endpoint "${name}": ${message}` });
  }
  problems.push(...scheduleFaults(name, resource));
  const routes = Object.keys(own(manifest.routes, name) ?? {});
  if (kindOf(resource) === "load-balanced" && routes.length === 0) {
    problems.push({ code: "BAD_INPUT", message: `Endpoint "${name}" is load-balanced but has no routes.` });
  }
  const isPublic = publicRoutesProblem(resource.publicRoutes, kindOf(resource) === "load-balanced" ? routes : []);
  if (isPublic !== undefined) problems.push({ code: "INVALID_SETTING", message: `Endpoint "${name}": ${isPublic}` });
  for (const route of routes.filter((key) => !ROUTE_KEY.test(key))) {
    problems.push({ code: "BAD_INPUT", message: `Endpoint "${name}": "${route}" is not of the form METHOD /path.` });
  }
  return problems;
}

function scheduleFaults(name: string, resource: ManifestResource): Problem[] {
  if (resource.schedule === null) return [];
  const faults = scheduleProblems(resource.schedule);
  if (kindOf(resource) !== "queue") faults.push("a schedule makes jobs, and a load-balanced endpoint has none.");
  return faults.map((fault) => ({ code: "INVALID_SETTING", message: `Endpoint "${name}": ${fault}` }));
}

function variableProblems(manifest: Manifest, name: string, env: EnvValues): Problem[] {
  const declared = own(manifest.resources, name)!.envNames;
  const problem = (variable: string, text: string): Problem => ({
    code: "INVALID_SETTING",
    message: `Endpoint "${name}": the environment variable ${variable} ${text}`,
  });
  return [
    ...Object.keys(env)
      .filter((variable) => !isEnvName(variable))
      .map((variable) => problem(JSON.stringify(variable), "is not a valid name.")),
    ...declared
      .filter((variable) => own(env, variable) === undefined)
      .map((variable) => problem(variable, "is declared but has no value.")),
    ...Object.keys(env)
      .filter((variable) => !declared.includes(variable))
      .map((variable) => problem(variable, "has a value but is not declared in envNames.")),
  ];
}

function shapeProblems(root: string, error: z.ZodError): Problem[] {
  return error.issues.map((issue) => ({
    code: "BAD_INPUT",
    message: `${[root, ...issue.path.map(String)].join(".")}: ${issue.message}`,
  }));
}
