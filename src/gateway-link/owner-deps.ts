/** What a gateway without a platform of its own is given: all of it is asked of the owner, or kept here until the owner says that it changed. */

import { CACHED_BUILDS_MAX, CACHED_ENDPOINTS_MAX } from "../domain/limits.ts";
import type { RequestTrace, Traces } from "../domain/traces.ts";
import type { WorkerCounts } from "../domain/worker.ts";
import type { GatewayDeps } from "../gateway/context.ts";
import type { EndpointName } from "../gateway/named-endpoint.ts";
import { cached } from "../lib/cached.ts";
import type { CalledEndpoint } from "../store/store.ts";
import type { KnownSecret } from "./asked.ts";
import { OwnerForwarder } from "./owner-forwarder.ts";
import { OwnerJobs } from "./owner-jobs.ts";
import type { OwnerLink } from "./owner-link.ts";
import type { SharedSettings } from "./settings.ts";

type Asked = "queue" | "endpoints" | "endpointNamed" | "forwarder" | "workers" | "sourceOf" | "pull" | "requestEnded";
type Counted = "rates" | "publicRate" | "peers" | "traces";

/** Where keys and signers are looked up. */
export function keysOfOwner(link: OwnerLink) {
  return {
    find: async (hash: string) => (await link.ask<{ known?: KnownSecret }>("key", { hash })).value.known,
    findSigner: async (signer: string) => (await link.ask<{ known?: KnownSecret }>("signer", { signer })).value.known,
    touch: async (id: string, at: number) => link.tell("keyUsed", { id, at }),
    onChange: link.onChange.bind(link),
  };
}

/** `spans`: what traces requests here, if anything does. */
export function ownerDeps(
  link: OwnerLink,
  settings: SharedSettings,
  spans: Pick<Traces, "request"> | undefined,
): Pick<GatewayDeps, Asked | Counted> {
  const jobs = new OwnerJobs(link);
  const endpointOf = async (op: string, given: object) =>
    (await link.ask<{ endpoint?: CalledEndpoint }>(op, given)).value.endpoint;
  const endpoints = cached(CACHED_ENDPOINTS_MAX, (id) => endpointOf("endpoint", { id }));
  link.onChange(({ table, id }) => {
    if (table === "endpoints") endpoints.changed(id);
  });
  let call = 0;
  return {
    queue: jobs,
    endpoints,
    endpointNamed: (name: EndpointName) => endpointOf("endpointNamed", { name }),
    forwarder: new OwnerForwarder(link, (workerId) => jobs.bootOf(workerId)),
    workers: {
      counts: async (endpointId) => (await link.ask<WorkerCounts>("workers", { endpointId })).value,
      health: () => ({ state: "READY", reason: "", progress: [] }),
    },
    sourceOf: cached(
      CACHED_BUILDS_MAX,
      async (buildId) => (await link.ask<{ layer?: string }>("source", { buildId })).value.layer,
    ).find,
    pull: "elsewhere",
    requestEnded: ({ endpoint: { id, name, buildId }, ...request }) =>
      link.tell("requestEnded", { request: { ...request, endpoint: { id, name, buildId } } }),
    rates: settings.countsCalls
      ? { take: async (endpointId, rate) => void (await link.ask("rate", { endpointId, rate })) }
      : undefined,
    publicRate: {
      take: (endpointId, address) =>
        settings.countsOpenCalls ? link.ask("publicRate", { endpointId, address }).then(() => {}) : undefined,
    },
    peers: {
      enter(endpointId) {
        const number = ++call;
        link.tell("peerEnters", { call: number, endpointId });
        return () => link.tell("peerLeaves", { call: number });
      },
      // The owner knows those of all gateways.
      waitFor: () => false,
    },
    traces: spans && {
      jobSubmitted: (id, { id: endpointId, name }, traceparent) =>
        link.tell("jobSubmitted", { id, endpoint: { id: endpointId, name }, traceparent }),
      jobDropped: (id) => link.tell("jobDropped", { id }),
      jobHandedOut: () => undefined,
      jobFinished: () => {},
      request: (...request): RequestTrace => spans.request(...request),
    },
  };
}
