/** What a platform on a database shows the others: where they ask it, and how it leaves. platform-link.ts is the other end. */
import { REPLICA_UNREADY_MS } from "../domain/limits.ts";
import type { Gateway } from "../gateway/server.ts";
import { askedOfBacking, type Backing } from "../gateway-link/backing.ts";
import { GatewayDoor } from "../gateway-link/gateway-door.ts";
import { sharedSettings } from "../gateway-link/settings.ts";
import type { Own } from "../lib/own.ts";
import { keysOf } from "../store/key-check.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "./config.ts";

interface DoorNeeds
  extends Pick<ConstructorParameters<typeof GatewayDoor>[0], "looks" | "makeReady" | "isSure" | "gone"> {
  readonly config: Config;
  readonly own: Own;
  readonly gateway: Gateway;
  readonly store: Store;
  readonly workersAt?: string | undefined;
}

/** For those that prove themselves at the ReplicaDoor. */
export function platformDoor(
  backing: Backing,
  { config, own, gateway, store, workersAt, ...needs }: DoorNeeds,
): GatewayDoor {
  return new GatewayDoor({
    ...askedOfBacking(backing, keysOf(store), own),
    ...needs,
    secret: undefined,
    settings: {
      ...sharedSettings(gateway.context),
      countsCalls: config.rateLimits !== undefined,
      // Each has them from the keys of its data directory.
      signingKeys: undefined,
      ownerKeys: [],
      workersAt,
    },
  });
}

/** From now on callers should go elsewhere; who comes all the same is answered. */
export function sendCallersAway({ server }: Gateway): void {
  server.prependListener("request", (_req, res) => {
    res.shouldKeepAlive = false;
  });
}

/**
 * Why it is not ready while nobody can be asked; `since` is of `performance.now()`. All would be unready at once while one takes the place of
 * another, and a load balancer would refuse what is held: so for REPLICA_UNREADY_MS there is no reason.
 */
export function whyAlone(since: number): readonly string[] {
  const isLong = performance.now() - since > REPLICA_UNREADY_MS;
  return isLong ? ["No platform on the database can be reached."] : [];
}
