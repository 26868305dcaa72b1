/** A link to another platform on the same database. */
import { REPLICA_LINK_SILENCE_MS } from "../domain/limits.ts";
import type { Traces } from "../domain/traces.ts";
import type { GatewayLog } from "../gateway/context.ts";
import type { Backing } from "../gateway-link/backing.ts";
import { greetOwner } from "../gateway-link/dial.ts";
import type { OwnerLink } from "../gateway-link/owner-link.ts";
import { dialReplica } from "../gateway-link/replica-door.ts";
import type { Certificate } from "../lib/self-signed-certificate.ts";
import type { ReplicaRow } from "../postgres/replicas.ts";
import { linkBacking } from "./link-backing.ts";
import { addressOf } from "./replica-address.ts";

export interface PlatformLink {
  readonly link: OwnerLink;
  readonly backing: Backing;
  /** Resolves why it ended, when it has. */
  readonly closed: Promise<string>;
}

/** Throws PLATFORM_UNREACHABLE. `gone`: called at once when it has ended. */
export async function dialPlatform(
  row: ReplicaRow,
  certificate: Certificate,
  { spans, log }: { readonly spans: Pick<Traces, "request"> | undefined; readonly log: GatewayLog },
  gone: (backing: Backing) => void,
): Promise<PlatformLink> {
  const at = addressOf(row);
  const { link, settings } = await greetOwner(await dialReplica(at, certificate, "link"), undefined);
  const dialCalls = () => dialReplica(at, certificate, "calls");
  const backing = linkBacking({ link, settings, spans, dialCalls, log });
  const closed = new Promise<string>((resolve) => {
    link.onClosed = (reason) => {
      gone(backing);
      resolve(reason);
    };
  });
  // It gives away what it has: nothing is asked of it any more.
  link.onClose = () => link.destroy();
  link.watch(REPLICA_LINK_SILENCE_MS);
  return { link, backing, closed };
}
