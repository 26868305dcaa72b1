/** What was recorded of endpoints and of the machine. docs/reference/metrics.md has the metrics. */
import { boundTo } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { SERIES_STEP_MS } from "../../domain/limits.ts";
import { nearest } from "../../domain/names.ts";
import { type Metric, metricNames, metricOf } from "../../domain/series.ts";
import type { Environment } from "../../store/store.ts";
import { requireReach, requireUnbound, sees } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEndpoint } from "../known.ts";
import { type EndpointFilter, visibleEndpoints } from "../visible-endpoints.ts";
import { knownHost } from "./hosts.ts";

/** `endpoint` is an id here. */
interface SeriesArgs extends EndpointFilter {
  readonly metric: string;
  readonly from: number;
  readonly to: number;
  readonly step?: number | null;
  /** Name of a machine that joined. */
  readonly host?: string | null;
}

/** Throws BAD_INPUT, FORBIDDEN, ENDPOINT_NOT_FOUND. */
export async function series({ metric: name, from, to, step, host, ...of }: SeriesArgs, context: RequestContext) {
  const metric = metricOf(name);
  if (metric === undefined) throw unknownMetric(name);
  if (!(Number.isFinite(from) && Number.isFinite(to) && from < to)) {
    throw new SvcError("BAD_INPUT", "`from` must be before `to`, both milliseconds since the epoch.");
  }
  if (step != null && step < SERIES_STEP_MS) {
    throw new SvcError("BAD_INPUT", `\`step\` must be at least ${SERIES_STEP_MS} milliseconds.`);
  }
  if (host != null && !metric.ofMachine) {
    throw new SvcError("BAD_INPUT", `${name} is of endpoints: \`host\` goes with machine.* metrics.`);
  }
  const all = await idsOf(of, metric, context);
  const ids = host == null ? all : [(await knownHost(context.store, host)).id];
  const answer = await context.series.read({ metric, ids, from, to, stepMs: step ?? undefined });
  return { metric: name, unit: metric.unit, ...answer };
}

/** None for the machine's metrics. Of the one endpoint, or of the environments that the key sees of those that are meant. */
async function idsOf({ endpoint, app, environment }: EndpointFilter, metric: Metric, context: RequestContext) {
  const isOfPlace = Boolean(app || environment);
  if (metric.ofMachine) {
    requireUnbound(context);
    if (endpoint == null && !isOfPlace) return [];
    throw new SvcError(
      "BAD_INPUT",
      `${metric.name} is of the machine: leave \`endpoint\` out, and \`app\` and \`environment\`.`,
    );
  }
  if (endpoint != null) {
    if (isOfPlace) {
      throw new SvcError(
        "BAD_INPUT",
        "`endpoint` is one endpoint's id: leave it out, or leave out `app` and `environment`.",
      );
    }
    const found = await knownEndpoint(context.store, endpoint);
    requireReach(context, found);
    return [found.id];
  }
  if (metric.ofRoute) throw new SvcError("BAD_INPUT", `${metric.name} is of one endpoint's route: give \`endpoint\`.`);
  const { principal, loader } = context;
  if (principal.endpointId) return [...(await visibleEndpoints({ app, environment }, context)).keys()];
  if (!isOfPlace && boundTo(principal) === undefined) return "all";
  const isMeant = (one: Environment) => (!environment || one.name === environment) && sees(principal, one.id);
  const apps = (await loader.apps()).filter(({ name }) => !app || name === app);
  const places = await Promise.all(apps.map(({ id }) => loader.environmentsOf(id)));
  return places.flat().flatMap((one) => (isMeant(one) ? one.id : []));
}

/** Throws FORBIDDEN, ENDPOINT_NOT_FOUND. */
export async function seriesNames({ endpoint }: { endpoint?: string | null }, context: RequestContext) {
  if (endpoint == null) return metricNames();
  const found = await knownEndpoint(context.store, endpoint);
  requireReach(context, found);
  const ofEndpoint = metricNames().filter((name) => !metricOf(name)?.ofMachine);
  return [...ofEndpoint, ...(await context.series.routeMetrics(found.id))];
}

function unknownMetric(name: string): SvcError {
  const close = nearest(name.slice(0, 100), metricNames());
  return new SvcError("BAD_INPUT", `There is no metric ${JSON.stringify(name.slice(0, 100))}.`, {
    help: close.length > 0 ? `Did you mean ${close.join(" or ")}?` : "seriesNames lists them.",
  });
}
