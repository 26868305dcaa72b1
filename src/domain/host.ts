/** Machines that joined, as the platform sees them now. What stays of them over a restart is in src/store/hosts.ts. */
import type { Machine, Share } from "./capacity.ts";

/** The name of a host, and of a label: what follows it in a message says what is allowed. */
export const HOST_NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
export const HOST_NAME_RULE = "a host's name has a-z, 0-9 and -, at most 63";
export const HOST_LABEL = /^[a-zA-Z0-9][\w.=-]{0,62}$/;
export const HOST_LABEL_RULE =
  "a label has letters, digits, _, ., = and -, begins with a letter or digit, and has at most 63";

/** Labels of an endpoint's `hosts`, any of which a machine has to have; none: every machine will do. */
export function hostLabels(hosts: string): string[] {
  return hosts === "" ? [] : hosts.split(",");
}

/** draining: gets no further workers; away: its agent is not connected, whatever else. */
export type HostState = "joined" | "away" | "draining";

/** What is in use of a machine, by whomever. */
export interface InUse {
  readonly vcpus: number;
  readonly memoryGb: number;
  /** Those that something is known of: parts of the time that something ran on them, and GB; null where the driver does not say. */
  readonly gpus: readonly { readonly index: number; readonly busy: number | null; readonly memoryGb: number | null }[];
}

export interface LiveHost {
  readonly id: string;
  /** Its agent is connected. */
  readonly connected: boolean;
  /** Since when it is, or is not; milliseconds since the epoch. */
  readonly since: number;
  /** As its agent said last; undefined while it was not heard of since the platform started. */
  readonly machine: Machine | undefined;
  /** As its agent measured last; undefined while it is away. */
  readonly inUse: InUse | undefined;
  /** Those that are counted on it, also while it is away. */
  readonly workers: readonly { readonly worker: string; readonly share: Share }[];
  /** What is wrong with it, each a sentence; usually nothing. */
  readonly problems: readonly string[];
}

export interface HostsView {
  hosts(): readonly LiveHost[];
  /** Name of the host that the worker is counted on; undefined: it is on none. */
  hostOf(workerId: string): string | undefined;
}

/** Of a platform that no machine can join. */
export const NO_HOSTS: HostsView = { hosts: () => [], hostOf: () => undefined };

/** What whoever runs a platform without a port for machines that join has to do. */
export const WORKER_PORT_HELP =
  "Start the platform with SVC_WORKER_LISTEN=tls://0.0.0.0:8788 and open that port to the machines that shall join.";
