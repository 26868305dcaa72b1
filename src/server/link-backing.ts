/** The platform that has the database, as a gateway of another one sees it. */
import type { Socket } from "node:net";
import type { Traces } from "../domain/traces.ts";
import type { GatewayLog } from "../gateway/context.ts";
import { PassOn } from "../gateway/pass-on.ts";
import { toldOf } from "../gateway/private-calls.ts";
import type { Backing } from "../gateway-link/backing.ts";
import { managedOver } from "../gateway-link/managed.ts";
import { keysOfOwner, ownerDeps } from "../gateway-link/owner-deps.ts";
import type { OwnerLink } from "../gateway-link/owner-link.ts";
import type { SharedSettings } from "../gateway-link/settings.ts";
import { checkKeys, createSignerFinder } from "../store/key-check.ts";

interface LinkBackingNeeds {
  readonly link: OwnerLink;
  readonly settings: SharedSettings;
  /** What traces requests here, if anything does. */
  readonly spans: Pick<Traces, "request"> | undefined;
  /** A connection for what is passed on. */
  readonly dialCalls: () => Promise<Socket>;
  readonly log: GatewayLog;
}

/** What it has looked up is its own: with another link all is asked anew. */
export function linkBacking({ link, settings, spans, dialCalls, log }: LinkBackingNeeds): Backing {
  const { sourceOf = () => undefined, peers, publicRate, pull: _pull, ...asked } = ownerDeps(link, settings, spans);
  const keys = keysOfOwner(link);
  const isSure = () => link.isSure;
  const passOn = new PassOn(async (caller) => {
    const socket = await dialCalls();
    socket.write(toldOf(caller));
    return socket;
  }, log);
  return {
    ...asked,
    sourceOf,
    peers: peers!,
    publicRate: publicRate!,
    keys: checkKeys(keys, Date.now, isSure),
    signer: createSignerFinder(keys, Date.now, isSure),
    pull: undefined,
    rates: asked.rates,
    traces: asked.traces,
    requestEnded: asked.requestEnded,
    fallback: passOn.pass,
    managed: managedOver(link),
  };
}
