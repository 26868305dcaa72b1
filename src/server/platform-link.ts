/** A link to another platform on the same database. */
import type { TLSSocket } from "node:tls";
import { SvcError } from "../domain/errors.ts";
import { REPLICA_LINK_SILENCE_MS, REPLICA_SILENT_MS } from "../domain/limits.ts";
import type { Traces } from "../domain/traces.ts";
import type { GatewayLog } from "../gateway/context.ts";
import type { Backing } from "../gateway-link/backing.ts";
import { greetOwner } from "../gateway-link/dial.ts";
import type { OwnerLink } from "../gateway-link/owner-link.ts";
import { dialReplica, type ReplicaProtocol } from "../gateway-link/replica-door.ts";
import type { Certificate } from "../lib/self-signed-certificate.ts";
import type { ReplicaRow } from "../postgres/replicas.ts";
import { linkBacking } from "./link-backing.ts";
import { addressOf } from "./replica-address.ts";

export interface PlatformLink {
  readonly link: OwnerLink;
  readonly backing: Backing;
  /** Resolves why it ended, when it has. */
  readonly closed: Promise<string>;
  /** Another connection to it. Throws PLATFORM_UNREACHABLE. */
  readonly dial: (protocol: ReplicaProtocol) => Promise<TLSSocket>;
  /** `host:port` where workers dial it; undefined: nowhere. */
  readonly workersAt: string | undefined;
}

export interface LinkTold {
  /** At once when it has ended. */
  gone(backing: Backing): void;
  /** Its platform gives away what it has: the link ends now. */
  leaves(): void;
  /** Whether others took over all that it had, or it never had anything. */
  hasNothing?(): boolean;
}

/** Throws PLATFORM_UNREACHABLE. */
export async function dialPlatform(
  row: ReplicaRow,
  certificate: Certificate,
  { spans, log }: { readonly spans: Pick<Traces, "request"> | undefined; readonly log: GatewayLog },
  told: LinkTold,
): Promise<PlatformLink> {
  const at = addressOf(row);
  const { link, settings } = await greetOwner(await dialReplica(at, certificate, "link"), undefined);
  const dial = (protocol: ReplicaProtocol) => dialReplica(at, certificate, protocol);
  const calls = new Set<TLSSocket>();
  let hasEnded = false;
  const dialCalls = async () => {
    const socket = await dial("calls");
    // Nothing was sent yet: another is asked. It might end before it answers.
    if (hasEnded) {
      socket.destroy();
      throw new SvcError("PLATFORM_UNREACHABLE", `The link to the platform at ${row.address} has ended.`);
    }
    calls.add(socket);
    socket.once("close", () => calls.delete(socket));
    return socket;
  };
  const backing = linkBacking({ link, settings, spans, dialCalls, log });
  let leaves = false;
  const closed = new Promise<string>((resolve) => {
    link.onClosed = (reason) => {
      hasEnded = true;
      told.gone(backing);
      // One that leaves answers what was passed on to it; one that vanishes, or stands still, closes nothing.
      if (!leaves) for (const socket of calls) socket.destroy();
      resolve(reason);
    };
  });
  // It gives away what it has: nothing is asked of it any more.
  link.onClose = () => {
    leaves = true;
    told.leaves();
    link.destroy();
  };
  // Calls that wait at one that stands still go to whoever has their endpoints now.
  link.watch(() => (told.hasNothing?.() ? REPLICA_SILENT_MS : REPLICA_LINK_SILENCE_MS));
  return { link, backing, closed, dial, workersAt: settings.workersAt };
}
