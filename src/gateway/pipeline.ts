/**
 * What happens to a call, in order:
 *
 *   route ─▶ authenticate ─▶ find endpoint ─▶ authorise ─▶ kind ─▶ source ─▶ rate limit ─▶ handler
 *     └──────────┴────────────────┴───────────────┴─────────┴────────┴───────────┴────────────┴──▶ error body
 *
 * A load-balanced call without a key takes open-calls.ts in place of authenticate and authorise.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { KeyScope } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { BY_NAME } from "../domain/names.ts";
import { SIGNATURE } from "../domain/signed-url.ts";
import type { CalledEndpoint } from "../store/store.ts";
import { authenticate, authorise, presentsKey, secretOf } from "./authenticate.ts";
import { CallerGone } from "./body.ts";
import { checkSource, SOURCE_HEADER } from "./check-source.ts";
import type { Call, GatewayContext } from "./context.ts";
import { answerForPage } from "./cors.ts";
import { CALL, type JobRoute } from "./job-route.ts";
import { JOB_ROUTES } from "./job-routes.ts";
import { loadBalanced } from "./load-balanced.ts";
import { namedEndpoint } from "./named-endpoint.ts";
import type { Admitted } from "./open-calls.ts";
import { MethodNotAllowed, sendError } from "./respond.ts";
import { OPENAI_ROUTE, type Target } from "./target.ts";

/** A status that is never sent: nobody is there to read it. */
const CALLER_GONE = 499;

/** Answers the call, whatever happens; never rejects. */
export async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  target: Target,
  gateway: GatewayContext,
): Promise<void> {
  let leave = () => {};
  let call: Call | undefined;
  const startedAt = performance.now();
  try {
    if (gateway.closing)
      throw new SvcError("SHUTTING_DOWN", "The platform is shutting down.", { help: "Try again soon." });
    if (req.headers.origin !== undefined) {
      const asked = await gateway.endpoints.find(target.endpointId);
      if (asked !== undefined && answerForPage(asked, req, res)) return;
    }
    refuseServiceWorker(req, target);
    const route = target.kind === "job" ? jobRoute(target, req.method ?? "") : undefined;
    const { endpoint, secret, principal, open } = await admit(req, target, gateway, route?.scopes ?? CALL);
    if (principal.kind === "worker") leave = gateway.peers.enter(endpoint.id);
    if (req.headers[SOURCE_HEADER] !== undefined && open === undefined) await checkSource(req, endpoint, gateway);
    const counted = route?.rate === undefined ? undefined : gateway.rates?.take(endpoint.id, route.rate);
    if (counted !== undefined) await counted;
    const { jobId, path, hosted } = target;
    const query = open?.signedQuery ?? target.query;
    call = { req, res, endpoint, query, jobId, path, hosted, secret, principal, open };
    await (route?.handle ?? loadBalanced)(call, gateway);
  } catch (error) {
    if (error instanceof CallerGone) return;
    if (!(error instanceof SvcError)) {
      gateway.log.error("a call failed inside the gateway", { method: req.method, path: target.path, error });
    }
    sendError(req, res, error, { closing: gateway.closing, forOpenAi: forOpenAi(target) });
  } finally {
    leave();
    if (target.kind === "load-balanced" && call !== undefined) tellEnd(call, gateway, performance.now() - startedAt);
  }
}

function tellEnd(call: Call, { requestEnded }: GatewayContext, totalMs: number): void {
  const { req, res, endpoint, path, served, trace } = call;
  const status = res.headersSent ? res.statusCode : CALLER_GONE;
  trace?.end(status, served);
  requestEnded?.({ endpoint, method: req.method ?? "GET", path, status, totalMs, served });
}

/** Its clients read errors in a form of their own; a load-balanced endpoint may have any API. */
function forOpenAi({ kind, route }: Target): boolean {
  return kind === "load-balanced" || route === OPENAI_ROUTE;
}

/** The endpoint, for a caller that may call it. */
export async function admit(
  req: IncomingMessage,
  target: Target,
  gateway: GatewayContext,
  scopes: readonly KeyScope[] = CALL,
  method = req.method ?? "GET",
): Promise<Admitted> {
  if (target.kind === "load-balanced" && !presentsKey(req)) {
    const admitted = await gateway.open.admit(req, target, method);
    if (admitted !== undefined) return admitted;
  } else if (target.query.includes(SIGNATURE)) {
    throw new SvcError("BAD_INPUT", "The request has a key and a signed URL.", { help: "Send one of them." });
  }
  const secret = secretOf(req);
  const checked = authenticate(secret, gateway.keys);
  const principal = checked instanceof Promise ? await checked : checked;
  const { endpointId } = target;
  const found =
    endpointId === BY_NAME ? namedEndpoint(req, principal, gateway.endpointNamed) : gateway.endpoints.find(endpointId);
  const endpoint = known(found instanceof Promise ? await found : found, target);
  authorise(principal, endpoint, scopes);
  checkKind(endpoint, target);
  return { endpoint, secret, principal };
}

/** It would answer in place of this address's pages, with headers that no endpoint may set for them (forwarded-headers.ts). */
function refuseServiceWorker({ headers }: IncomingMessage, { hosted }: Target): void {
  if (headers["service-worker"] === undefined || hosted) return;
  throw new SvcError("FORBIDDEN", "A service worker needs an address of its endpoint's own.", {
    help: "Give the platform a domain (SVC_DOMAIN): each endpoint then has a host of its own.",
  });
}

function jobRoute(target: Target, method: string): JobRoute {
  const route = JOB_ROUTES.get(target.route);
  if (route === undefined || route.namesJob !== (target.jobId !== "") || target.endpointId === "") {
    const routes = [...JOB_ROUTES.values()].map(({ name, namesJob }) => `/${name}${namesJob ? "/<job id>" : ""}`);
    throw new SvcError("NOT_FOUND", `There is no route ${target.path.slice(0, 200)}.`, {
      help: `Below /v2/<endpoint id> there are ${routes.join(", ")}.`,
    });
  }
  if (!route.methods.includes(method)) throw new MethodNotAllowed(`/${route.name}`, route.methods);
  return route;
}

function known(endpoint: CalledEndpoint | undefined, target: Target): CalledEndpoint {
  if (endpoint !== undefined) return endpoint;
  throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint "${target.endpointId.slice(0, 80)}".`, {
    help: "`svc undeploy list` shows the endpoints and their ids.",
  });
}

function checkKind(endpoint: CalledEndpoint, target: Target): void {
  if (target.kind === "job" && endpoint.kind === "load-balanced") {
    const own =
      target.route === OPENAI_ROUTE
        ? `Its base URL for OpenAI clients is /lb/${endpoint.id}/v1, if it has such routes.`
        : "";
    throw new SvcError("WRONG_ENDPOINT_KIND", `Endpoint "${endpoint.name}" is load-balanced and has no job routes.`, {
      help: own || `Call its own routes below /lb/${endpoint.id}/.`,
    });
  }
  if (target.kind === "load-balanced" && endpoint.kind === "queue") {
    throw new SvcError(
      "WRONG_ENDPOINT_KIND",
      `Endpoint "${endpoint.name}" is queue-based and has no routes of its own.`,
      {
        help: `Call POST /v2/${endpoint.id}/runsync or /run.`,
      },
    );
  }
}
