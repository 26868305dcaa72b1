/** What this process itself answers gateways with. */
import type { KeyChecker } from "../domain/api-key.ts";
import { type IsMine, ofMine } from "../domain/own-endpoints.ts";
import type { EndpointFinder } from "../gateway/context.ts";
import type { PeerCalls } from "../gateway/peer-calls.ts";
import { PublicRate } from "../gateway/public-rate.ts";
import { RateLimiter } from "../gateway/rate-limits.ts";
import type { Backing } from "../gateway-link/backing.ts";
import type { JobQueue } from "../queue/queue.ts";
import { createSourceLayers } from "../store/caches.ts";
import { createSignerFinder, type IsSure, keysOf } from "../store/key-check.ts";
import { findNamedEndpoint } from "../store/named-endpoint.ts";
import type { Store } from "../store/store.ts";
import type { WorkerLink } from "../worker-link/worker-link.ts";
import type { Config } from "./config.ts";
import type { Telemetry } from "./telemetry.ts";

interface OwnBackingNeeds {
  readonly config: Config;
  readonly store: Store;
  readonly queue: JobQueue;
  readonly endpoints: EndpointFinder;
  readonly keys: KeyChecker;
  readonly isSure: IsSure;
  readonly link: WorkerLink;
  readonly workers: Backing["workers"];
  readonly peers: PeerCalls;
  readonly telemetry: Pick<Telemetry, "traces" | "requestEnded">;
  readonly fallback: Backing["fallback"];
  readonly managed: Backing["managed"];
  /** The time of day, and for durations a clock that is never set. */
  readonly clock: () => number;
  readonly now: () => number;
}

export function ownBacking({ config, store, isSure, link, telemetry, clock, now, ...asked }: OwnBackingNeeds): Backing {
  return {
    ...asked,
    endpointNamed: (name) => findNamedEndpoint(store, name),
    signer: createSignerFinder(keysOf(store), clock, isSure),
    forwarder: link,
    pull: link.pull,
    sourceOf: createSourceLayers(store),
    rates: config.rateLimits && new RateLimiter(config.rateLimits, now),
    publicRate: new PublicRate(config.publicCallsMax, now),
    traces: telemetry.traces,
    requestEnded: telemetry.requestEnded,
  };
}

/** The same where several platforms share the endpoints. */
export function sharedBacking(backing: Backing, isMine: IsMine): Backing {
  const { queue, workers } = backing;
  return {
    ...backing,
    queue: { ...queue, counts: ofMine(isMine, queue.counts) },
    workers: {
      counts: ofMine(isMine, (endpointId) => workers.counts(endpointId)),
      health: ofMine(isMine, (endpointId) => workers.health(endpointId)),
    },
  };
}
