/** What a gateway is given whose backing changes while it answers calls. */
import type { Principal } from "../domain/api-key.ts";
import type { LoadBalancedRequest } from "../domain/request.ts";
import type { Traces } from "../domain/traces.ts";
import { CallerGone } from "../gateway/body.ts";
import type { GatewayDeps } from "../gateway/context.ts";
import type { Route } from "./route.ts";
import { RoutedJobs } from "./routed-jobs.ts";

type Asked = "queue" | "endpoints" | "endpointNamed" | "keys" | "forwarder" | "workers" | "sourceOf" | "requestEnded";
type Counted = "rates" | "publicRate" | "peers" | "traces";

/** What they do is done as well twice. */
const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);

export function routedDeps(route: Route, isTraced: boolean): Pick<GatewayDeps, Asked | Counted> {
  return {
    queue: new RoutedJobs(route),
    endpoints: { find: (id) => route.ask(({ endpoints }) => endpoints.find(id)) },
    endpointNamed: async (name) => route.ask(({ endpointNamed }) => endpointNamed(name)),
    keys: { check: (secret) => route.ask(({ keys }) => keys.check(secret)) },
    forwarder: {
      forward: async (request) => forward(route, request),
      bootOf: (workerId) => bootOf(route, workerId),
    },
    workers: {
      counts: (endpointId) => route.ask(({ workers }) => workers.counts(endpointId), { endpointId }),
      health: (endpointId) => route.ask(({ workers }) => workers.health(endpointId), { endpointId }),
    },
    sourceOf: (buildId) => route.ask(({ sourceOf }) => sourceOf(buildId)),
    // Whoever answered it counts it, where each counts.
    requestEnded: (request) => (route.shared?.own ?? route.backing)?.requestEnded?.(request),
    rates: { take: (endpointId, rate) => route.ask(({ rates }) => rates?.take(endpointId, rate), { endpointId }) },
    publicRate: {
      take: (endpointId, address) =>
        route.ask(({ publicRate }) => publicRate.take(endpointId, address), { endpointId }),
    },
    peers: {
      enter: (endpointId) => route.backingOf(endpointId)?.peers.enter(endpointId) ?? (() => {}),
      waitFor: (endpointId) => route.backingOf(endpointId)?.peers.waitFor(endpointId) ?? false,
    },
    ...(isTraced && { traces: routedTraces(route) }),
  };
}

export async function routedSigner(route: Route, signer: string): Promise<Principal | undefined> {
  return route.ask((backing) => backing.signer(signer));
}

/** Asked of another as long as no function can have begun with it, or where that does no harm. */
async function forward(route: Route, request: LoadBalancedRequest) {
  let isHandedOut = false;
  const handedOut = () => {
    isHandedOut = true;
  };
  const mayRepeat = () => !isHandedOut || (Buffer.isBuffer(request.body) && SAFE_METHODS.has(request.method));
  return route.ask(
    ({ forwarder }) => {
      if (request.departure.hasGone) throw new CallerGone();
      return forwarder.forward({ ...request, handedOut });
    },
    { mayRepeat, endpointId: request.endpointId },
  );
}

function bootOf(route: Route, workerId: string) {
  for (const { forwarder } of route.backings()) {
    const boot = forwarder.bootOf?.(workerId);
    if (boot !== undefined) return boot;
  }
  return undefined;
}

function routedTraces(route: Route): Traces {
  const traces = () => route.backing?.traces;
  return {
    jobSubmitted: (id, endpoint, traceparent) =>
      route.backingOf(endpoint.id)?.traces?.jobSubmitted(id, endpoint, traceparent),
    jobDropped(id) {
      for (const backing of route.backings()) backing.traces?.jobDropped(id);
    },
    jobHandedOut: (id) => traces()?.jobHandedOut(id),
    jobFinished: (job, boot) => traces()?.jobFinished(job, boot),
    request: (endpoint, method, headers) => traces()?.request(endpoint, method, headers) ?? { headers, end: () => {} },
  };
}
