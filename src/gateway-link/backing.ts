/** Whoever a gateway asks while it answers calls: the platform of its own process, or over a link the owner of the jobs. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../domain/api-key.ts";
import type { PullCalls } from "../domain/pull.ts";
import type { GatewayDeps } from "../gateway/context.ts";
import type { OpenPeerCalls } from "../gateway/peer-calls.ts";
import type { PublicRateTaker } from "../gateway/public-rate.ts";
import type { RateTaker } from "../gateway/rate-limits.ts";
import type { Own } from "../lib/own.ts";
import type { AskedOf } from "./asked.ts";
import type { Managed } from "./managed.ts";

type Asked = "queue" | "endpoints" | "endpointNamed" | "keys" | "forwarder" | "workers";

export interface Backing extends Pick<GatewayDeps, Asked> {
  readonly sourceOf: (buildId: string) => string | undefined | Promise<string | undefined>;
  /** The principal behind a signer of URLs; undefined once it is revoked, expired or gone. */
  readonly signer: (signer: string) => Promise<Principal | undefined>;
  /** Undefined: the fallback is for workers that pull. */
  readonly pull: PullCalls | undefined;
  /** Undefined: calls are not counted. */
  readonly rates: RateTaker | undefined;
  readonly publicRate: PublicRateTaker;
  readonly peers: OpenPeerCalls;
  readonly traces: GatewayDeps["traces"];
  readonly requestEnded: GatewayDeps["requestEnded"];
  /** Undefined where one platform has all endpoints. */
  readonly managed?: Managed | undefined;
  /** Answers what is no call. Rejects where another may still answer it. */
  readonly fallback: (req: IncomingMessage, res: ServerResponse) => void | Promise<void>;
}

/** What gateways may ask of the platform that has it. */
export function askedOfBacking(backing: Backing, keys: AskedOf["keys"], own: Own): AskedOf {
  const { queue, endpoints, endpointNamed, forwarder, workers, sourceOf } = backing;
  const { rates, publicRate, peers, traces, requestEnded, managed } = backing;
  const asked = { jobs: queue, endpoints, endpointNamed, keys, forwarder, workers, sourceOf };
  return { ...asked, rates, publicRate, peers, traces, requestEnded, managed, own };
}
