import type { GatewayContext } from "../gateway/context.ts";
import type { Own } from "../lib/own.ts";
import type { AskedOf } from "./asked.ts";

/** What gateways may ask of an owner, by the owner's own gateway. */
export function askedOf(context: GatewayContext, keys: AskedOf["keys"], own: Own): AskedOf {
  const { endpoints, endpointNamed, forwarder, workers, rates, publicRate, peers, traces, requestEnded } = context;
  return {
    jobs: context.queue,
    ...{ endpoints, endpointNamed, keys, forwarder, workers, rates, publicRate, peers, traces, requestEnded, own },
    sourceOf: (buildId) => context.sourceOf?.(buildId),
  };
}
