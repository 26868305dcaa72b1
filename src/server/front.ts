/** The platform's gateway: over what this process has itself, or over a route, where that may be another platform for a time. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import type { GatewayDeps } from "../gateway/context.ts";
import { answerPull, findPull } from "../gateway/pull-routes.ts";
import { sendError } from "../gateway/respond.ts";
import { createGateway, type Gateway } from "../gateway/server.ts";
import type { Backing } from "../gateway-link/backing.ts";
import type { Route } from "../gateway-link/route.ts";
import { routedDeps, routedSigner } from "../gateway-link/routed-deps.ts";
import type { Log } from "../lib/log.ts";
import type { Own } from "../lib/own.ts";
import { openFilesMax } from "../lib/process-limits.ts";
import { timeOrderedUuid } from "../lib/uuid.ts";
import type { Config } from "./config.ts";
import { connectionsMax } from "./connections-max.ts";
import { derivedKeys, type SecretKeys } from "./secret-keys.ts";

interface FrontNeeds {
  readonly config: Config;
  readonly secretKeys: SecretKeys;
  readonly log: Log;
  readonly own: Own;
  /** A connection could not be accepted. */
  readonly acceptFailed: (error: Error) => void;
}

/** Of a platform that is alone: nothing stands between. */
export function directFront(needs: FrontNeeds, backing: Backing): Gateway {
  const { signer, pull, fallback, ...asked } = backing;
  return createGateway({
    ...common(needs, signer),
    ...asked,
    ...(pull !== undefined && { pull }),
    fallback: (req, res) => needs.own("the management API", Promise.resolve(fallback(req, res))),
  });
}

/** Why this platform takes no calls at the moment; none: it holds them. Undefined: who is asked says it. */
type NotReady = () => readonly string[] | undefined;

export function routedFront(needs: FrontNeeds, route: Route, notReady: NotReady): Gateway {
  const gateway: Gateway = createGateway({
    ...common(needs, (signer) => routedSigner(route, signer)),
    ...routedDeps(route, needs.config.traces),
    // Whoever has the jobs answers them.
    pull: "elsewhere",
    fallback: (req, res) => needs.own("answering a request", passed(req, res)),
  });
  const passed = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    if (answersHealth(req, res, notReady)) return;
    // Whoever asks whether it is ready wants to know it now.
    const mayRepeat = () => !asksForHealth(req);
    const pulled = findPull(req.url ?? "/");
    // Workers of this machine ask the platform that has started them; those of others ask any, and who has their endpoint answers.
    const isHere = needs.config.workerListen === undefined;
    const of = pulled === undefined || isHere ? {} : { endpointId: pulled.endpointId };
    try {
      await route.ask(
        (backing) => {
          const here = route.shared?.own ?? backing;
          const { pull } = isHere ? here : backing;
          if (pulled === undefined || pull === undefined) return (isOfOne(req) ? here : backing).fallback(req, res);
          return answerPull(req, res, pulled, pull, gateway.context);
        },
        { mayRepeat, ...of },
      );
    } catch (error) {
      if (!res.headersSent && answersHealth(req, res, notReady)) return;
      sendError(req, res, error, { closing: true });
      if (!(error instanceof SvcError)) throw error;
    }
  };
  return gateway;
}

function common({ config, secretKeys, acceptFailed, log }: FrontNeeds, find: Backing["signer"]) {
  const { domain, requestTimeoutMs, rateLimits, publicCallsMax, trustedProxies, retention } = config;
  return {
    newId: () => timeOrderedUuid(),
    signing: { keys: derivedKeys(secretKeys, "signed urls"), find },
    ownerKeys: derivedKeys(secretKeys, "job owners"),
    now: Date.now,
    settings: {
      ...{ domain, requestTimeoutMs, rateLimits, publicCallsMax, trustedProxies, retention },
      connectionsMax: connectionsMax(openFilesMax()),
    },
    acceptFailed,
    log,
  } satisfies Partial<GatewayDeps>;
}

/** Each says it of itself. */
function isOfOne(req: IncomingMessage): boolean {
  return asksForHealth(req) || pathOf(req) === "/metrics";
}

function asksForHealth(req: IncomingMessage): boolean {
  const path = pathOf(req);
  return (path === "/healthz" || path === "/readyz") && (req.method === "GET" || req.method === "HEAD");
}

function pathOf({ url = "/" }: IncomingMessage): string {
  return url.split("?", 1)[0]!;
}

/** Of this process, not of the one that its calls go to. */
function answersHealth(req: IncomingMessage, res: ServerResponse, notReady: NotReady): boolean {
  const reasons = notReady();
  if (reasons === undefined || !asksForHealth(req)) return false;
  const isReady = reasons.length === 0 || pathOf(req) === "/healthz";
  const body = Buffer.from(JSON.stringify(isReady ? { status: "ok" } : { status: "not ready", reasons }));
  res.writeHead(isReady ? 200 : 503, {
    "content-type": "application/json",
    "content-length": body.length,
    "cache-control": "no-store",
  });
  res.end(req.method === "HEAD" ? undefined : body);
  return true;
}
