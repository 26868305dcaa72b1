/** From Endpoint objects and decorators to endpoints: one for each name, with its kind, functions and routes. */
import { type EndpointKind, type EndpointSettings, retriesProblem } from "../domain/endpoint.ts";
import type { ManifestFunction } from "../domain/manifest.ts";
import { IMAGE_PROGRAM } from "../domain/server.ts";
import { concurrencyOf } from "./batches.ts";
import type { Diagnostic } from "./build-result.ts";
import type { ImportingFunction } from "./check-imports.ts";
import { checkRoutes } from "./check-routes.ts";
import type { EndpointDeclaration, RouteDeclaration } from "./endpoint-declaration.ts";
import { APPLICATION_METHOD, type At, type EndpointObject, type EndpointUse, type Facts } from "./facts.ts";
import { readPublic } from "./read-public.ts";
import { scheduleFindings } from "./read-schedule.ts";
import type { ReadSettings, SettingsReader } from "./read-settings.ts";
import type { Report, Sources } from "./sources.ts";
import { asEndpoint } from "./variants.ts";

interface Declared {
  readonly object: EndpointObject;
  readonly uses: readonly EndpointUse[];
  readonly kind: EndpointKind;
  readonly settings: ReadSettings;
}

type Describe = (use: EndpointUse) => ManifestFunction;

export interface Grouped {
  readonly endpoints: EndpointDeclaration[];
  readonly functions: ImportingFunction[];
}

export function groupEndpoints(facts: Facts, sources: Sources, reader: SettingsReader, report: Report): Grouped {
  const describe: Describe = (use) => facts.functions[use.function]!.described;
  const declared = declarations(facts, describe, reader, report);
  const byName = new Map<string, Declared[]>();
  for (const each of declared) {
    // One without a valid name is checked by itself, so that all its problems are said at once.
    const key = each.settings.name ?? `\0${each.object.key}`;
    byName.set(key, [...(byName.get(key) ?? []), each]);
  }
  const endpoints: EndpointDeclaration[] = [];
  for (const same of byName.values()) {
    const [first] = same;
    const name = first!.settings.name ?? "?";
    checkSameName(name, same, report);
    const allUses = same.filter((each) => each.kind === first!.kind).flatMap((each) => each.uses);
    const routes = allUses.flatMap((use) => routeOf(use, describe, sources, report) ?? []);
    checkRoutes(name, routes, report);
    checkClosed(allUses, first!.settings, report);
    const functions = [...new Set(allUses.map((use) => describe(use)))];
    if (first!.settings.name === undefined) continue;
    const { schedule } = first!.settings;
    if (schedule !== undefined) {
      for (const finding of scheduleFindings(schedule, first!.kind, functions[0])) report(finding);
    }
    const { settings, gpuPreference, server, systemDependencies, imageSteps } = first!.settings;
    const { dependencies, env, pythonVersion, place, dependenciesPlace } = first!.settings;
    endpoints.push({
      name,
      kind: first!.kind,
      settings: {
        ...settings,
        maxConcurrency: concurrencyOf(settings, first!.settings.concurrencyAt, functions, report),
        publicRoutes: publicRoutes(settings, routes),
      },
      gpuPreference,
      functions,
      routes,
      server,
      schedule: schedule?.schedule,
      systemDependencies,
      imageSteps,
      dependencies,
      env,
      pythonVersion,
      place,
      dependenciesPlace,
    });
  }
  // A server's command may run any file, wherever its endpoint is declared.
  const functions = declared.flatMap(({ settings, uses }) =>
    uses
      .filter((use) => use.server === undefined)
      .map((use) => ({
        endpoint: settings.name ?? "?",
        dependencies: settings.dependencies,
        file: use.file,
        imports: facts.functions[use.function]!.imports,
      })),
  );
  for (const each of declared) {
    checkConcurrency(each, describe, report);
    checkRetries(each, describe, report);
  }
  endpoints.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { endpoints, functions };
}

/** Each Endpoint object with its kind and settings. */
function declarations(facts: Facts, describe: Describe, reader: SettingsReader, report: Report): Declared[] {
  const objects = new Map(facts.objects.map((object) => [object.key, object]));
  const uses = new Map<string, EndpointUse[]>(facts.named.map((key) => [key, []]));
  for (const use of facts.uses) uses.set(use.object, [...(uses.get(use.object) ?? []), use]);
  return [...uses].flatMap(([key, its]) => {
    const routed = its.filter((use) => use.route !== null);
    const kind: EndpointKind = routed.length > 0 ? "load-balanced" : "queue";
    const only = kind === "queue" ? its[0] : undefined;
    // A program is no function that the endpoint could be called after.
    const named = only?.server ? undefined : only;
    const { object, unnamed } = asEndpoint(objects.get(key)!, objects, named ? describe(named).name : "", report);
    const read = reader.read(object, kind, named && unnamed);
    const runsImage = only?.server === true && read.server === undefined;
    const settings = runsImage ? { ...read, server: IMAGE_PROGRAM } : read;
    const name = settings.name ?? "?";
    if (its.length === 0) {
      report({
        severity: "warning",
        rule: "endpoint-without-functions",
        message: `Nothing is decorated with endpoint "${name}", so it is not deployed.`,
        help: "Decorate a function with it, or remove it.",
        ...settings.place,
      });
      return [];
    }
    const beside = its.find((use) => use.server === undefined);
    if (its.some((use) => use.server) && beside !== undefined) {
      report({
        severity: "error",
        rule: "mixed-kinds",
        message: `Endpoint "${name}" has a command, which answers all its requests, and also decorates a function.`,
        help: "Declare a second Endpoint(...) with another name for the function.",
        at: beside.at,
      });
      return [{ object, uses: its, kind, settings }];
    }
    const direct = its.find((use) => use.route === null);
    if (direct !== undefined && routed.length > 0) {
      report({
        severity: "error",
        rule: "mixed-kinds",
        message: `Endpoint "${name}" has routes and also runs a function through /run: it can be of one kind only.`,
        help: "Declare a second Endpoint(...) with another name for the function.",
        at: direct.at,
      });
    }
    return [{ object, uses: its, kind, settings }];
  });
}

/** A queue-based name stands for one function; load-balanced declarations may share a name and then agree. */
function checkSameName(name: string, same: readonly Declared[], report: Report): void {
  const [first, ...later] = same;
  const firstUse = first!.uses[0]!;
  const where = `${firstUse.at[0]}:${firstUse.at[1]}`;
  const error = (place: Partial<Diagnostic> | { at: At }, message: string, help: string) =>
    report({ severity: "error", rule: "duplicate-name", message, help, ...place });
  if (first!.kind === "queue") {
    for (const use of first!.uses.slice(1)) {
      error(
        { at: use.at },
        `Endpoint "${name}" already runs the function in ${where}; a queue-based endpoint has one function.`,
        `Give this function its own Endpoint(name="${name}-2").`,
      );
    }
  }
  for (const each of later) {
    if (first!.kind === "load-balanced" && each.kind === "load-balanced") {
      if (JSON.stringify(comparable(first!.settings)) === JSON.stringify(comparable(each.settings))) continue;
      error(
        each.settings.place,
        `Endpoint "${name}" is declared in ${where} with other settings.`,
        "Import that endpoint object instead of declaring it again, or choose another name.",
      );
    } else {
      error(
        each.settings.place,
        `There are two endpoints named "${name}"; the first is in ${where}.`,
        `Choose another name, for example "${name}-2".`,
      );
    }
  }
}

/** A route that asks to stay closed where the endpoint opens all would be open. */
function checkClosed(uses: readonly EndpointUse[], { settings }: ReadSettings, report: Report): void {
  if (settings.publicRoutes === "") return;
  for (const { route } of uses) {
    const value = route?.public;
    if (value?.kind !== "boolean" || value.value) continue;
    report({
      severity: "error",
      rule: "public-endpoint",
      message: "The endpoint is public=True as a whole, so this route cannot be closed.",
      help: "Take public=True from Endpoint(…), and give it to each route that everybody may call.",
      at: value.at,
    });
  }
}

/** Those of the endpoint as a whole, or of its routes. */
function publicRoutes(settings: EndpointSettings, routes: readonly RouteDeclaration[]): string {
  if (settings.publicRoutes !== "") return settings.publicRoutes;
  const keys = routes.filter(({ isPublic }) => isPublic).map(({ method, path }) => `${method} ${path}`);
  return keys.sort().join("\n");
}

function comparable({ settings, gpuPreference, dependencies, env, pythonVersion, ...rest }: ReadSettings): unknown {
  const { server, systemDependencies, imageSteps } = rest;
  return [
    settings,
    server,
    systemDependencies,
    imageSteps,
    gpuPreference,
    [...dependencies].sort(),
    Object.entries(env).sort(),
    pythonVersion,
  ];
}

function routeOf(use: EndpointUse, describe: Describe, sources: Sources, report: Report): RouteDeclaration | undefined {
  if (use.route === null) return undefined;
  const { method, path } = use.route;
  const isPublic = readPublic(use.route.public, report);
  if (path === null) return { method, path: "/", isPublic, function: describe(use), place: sources.place(use.at) };
  if (path.kind === "string") {
    return { method, path: path.value, isPublic, function: describe(use), place: sources.place(path.at) };
  }
  const why = path.kind === "unknown" ? `cannot be known without running the code: ${path.why}` : "must be a text";
  report({
    severity: "error",
    rule: "not-constant",
    message: `The path of a route ${why}.`,
    help: 'Write it as a text such as "/health".',
    at: path.at,
  });
  return undefined;
}

function checkRetries({ uses, settings, kind }: Declared, describe: Describe, report: Report): void {
  if (settings.settings.retriesMax === 0 || settings.retriesAt === undefined) return;
  const problem = retriesProblem(kind, uses.map(describe));
  if (problem === undefined) return;
  report({ severity: "error", rule: "retries-of-nothing", ...problem, at: settings.retriesAt });
}

function checkConcurrency({ uses, settings }: Declared, describe: Describe, report: Report): void {
  if (settings.settings.maxConcurrency === 1 || settings.concurrencyAt === undefined) return;
  const functions = uses.filter((use) => use.route?.method !== APPLICATION_METHOD);
  const sync = functions.map((use) => describe(use)).find((each) => !each.async && each.batchSize === undefined);
  if (sync === undefined) return;
  report({
    severity: "warning",
    rule: "sync-concurrency",
    message: `max_concurrency=${settings.settings.maxConcurrency}, but ${sync.name}() is not async: its calls run in threads, and Python code takes turns.`,
    help: `Write async def ${sync.name}(…), or leave max_concurrency out and let more workers run.`,
    at: settings.concurrencyAt,
  });
}
