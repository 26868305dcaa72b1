/** What the control plane is given, and what each of its requests knows. */
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { KeyChecker, Principal } from "../domain/api-key.ts";
import type { PlatformWishes } from "../domain/driver-offers.ts";
import type { HostsView } from "../domain/host.ts";
import type { EventSource } from "../domain/platform-event.ts";
import type { EndpointSample, ScalingDecision, SeenWorker, WorkerView } from "../domain/worker.ts";
import type { Capacity } from "../drivers/worker-driver.ts";
import type {
  Numbered,
  RecordedDecision,
  RecordedRequest,
  RecordFilter,
  RecordStore,
  RequestFilter,
} from "../history/record-store.ts";
import type { SeriesStore } from "../history/series-store.ts";
import type { ClientAddress } from "../lib/client-address.ts";
import type { Own } from "../lib/own.ts";
import type { LogReader } from "../logs/log-store.ts";
import type { JobReader, JobUpkeep, ScheduleBook } from "../queue/queue.ts";
import type { AlertRecord } from "../store/alerts.ts";
import type { LoginStore } from "../store/logins.ts";
import type { Store } from "../store/store.ts";
import type { VolumeStore } from "../volumes/volume-store.ts";
import type { LayerClaims } from "./layer-claims.ts";
import type { Loads } from "./loads.ts";
import type { RefusedTries } from "./refused.ts";
import type { RequestLoader } from "./request-loader.ts";

export interface ControlPlaneConfig {
  /** Address under which callers reach the platform, without a slash at its end; known once the server listens. */
  publicUrl(): string;
  /** Load-balanced endpoints also answer on https://<endpoint_id>.<domain>; "" for none. */
  readonly domain: string;
  readonly workerQuota: number;
  /** Proxies whose X-Forwarded-For is believed: addresses and networks. */
  readonly trustedProxies?: readonly string[];
  /** Largest sum of a build's layers, and so of one layer; ARTIFACT_MAX_BYTES when not given. */
  readonly artifactMaxBytes?: number;
  /** A layer's upload on which nothing arrives for so long is cut; UPLOAD_IDLE_MAX_MS when not given. */
  readonly uploadIdleMs?: number;
}

/** Of one GPU, by its index; null where it is not known. */
interface UsedGpu {
  /** Name of the host that it is in; absent: the platform's own machine. */
  readonly host?: string;
  readonly index: number;
  /** 0 to 1. */
  readonly busy: number | null;
  readonly memoryGb: number | null;
}

type Given<T> = T | Promise<T>;

/** The worker link's TLS port. */
export interface WorkerPort {
  /** "" where it is the host that callers know the platform by. */
  readonly host: string;
  readonly port: number;
  /** SHA-256 in hex of its certificate. */
  readonly fingerprint: string;
}

/** The machine under the platform. */
export interface MachineView {
  capacity(): Promise<Capacity>;
  /** In use now, by whomever. */
  used(): Promise<{ readonly vcpus: number; readonly memoryGb: number; readonly gpus: readonly UsedGpu[] }>;
  /** Of the data directory. */
  disk(): Promise<{ readonly freeBytes: number; readonly totalBytes: number }>;
}

export interface ControlPlaneDeps {
  readonly store: Store;
  readonly artifacts: ArtifactStore;
  readonly keys: KeyChecker;
  readonly workers: WorkerView & {
    /** Why workers were started and stopped, oldest first. */
    decisions(endpointId: string): Given<readonly ScalingDecision[]>;
    /** Endpoints for whose workers the machine has no room. */
    waitingForRoom(): Given<readonly { endpointId: string; missing: number; reason: string }[]>;
    /** What is known of its workers beside their rows. */
    seen(endpointId: string, workerIds: readonly string[]): Given<Readonly<Record<string, SeenWorker>>>;
  };
  /** Whether workers that ask for these GPUs run on the CPU instead. */
  readonly emulatesGpu: (gpuIds: string) => boolean;
  /** What of these settings no worker of this platform can have, each a sentence with what to do. */
  readonly cannotGive: (wishes: PlatformWishes) => readonly string[];
  readonly jobs: Pick<JobUpkeep, "forget"> &
    Pick<JobReader, "counts" | "search"> &
    Pick<ScheduleBook, "scheduleOf" | "setSchedule">;
  readonly logs: LogReader;
  readonly logins: LoginStore;
  /** A page of several platforms' rows is named by a text. */
  readonly records: Pick<RecordStore, "errorGroups"> & {
    requests(filter: RequestFilter, first: number, before?: number | string): Promise<Numbered<RecordedRequest>[]>;
    decisions(filter: RecordFilter, first: number, before?: number | string): Promise<Numbered<RecordedDecision>[]>;
  };
  readonly series: Pick<SeriesStore, "read" | "routeMetrics">;
  /** An endpoint's requests. */
  readonly load: (endpointId: string) => Given<Pick<EndpointSample, "waitingRequests" | "running">>;
  readonly machine: MachineView;
  readonly events: EventSource;
  /** In Prometheus' text format, and who may read them. */
  readonly metrics: {
    readonly access: "off" | "on" | "key";
    read(): Promise<{ readonly contentType: string; readonly text: string }>;
  };
  /** Why the platform takes no work now, in words; usually nothing. */
  readonly notReady: () => Promise<readonly string[]>;
  /** What does not work though it takes work. */
  readonly degraded?: () => readonly string[];
  /** Aborts when the platform begins to stop. */
  readonly closing: AbortSignal;
  readonly volumes: VolumeStore;
  /** Sends a test message now. Resolves "delivered", or why not. */
  readonly testAlert: (alert: AlertRecord) => Promise<string>;
  /** Files came or went: they are worth measuring. */
  readonly volumesChanged: () => void;
  /** What the operator should know about the whole platform now; usually nothing. */
  readonly notices: () => readonly string[];
  /** Seals the values of secrets; what is sealed is never opened here. */
  readonly seal: { seal(text: string, label: string): string };
  /** A code that is worth one session of the console. Throws FORBIDDEN, RATE_LIMITED. */
  readonly openConsole: (principal: Principal) => string;
  /** Of signed URLs. */
  readonly signingKey: Uint8Array;
  /** Of tickets for layers. */
  readonly ticketKeys: readonly Uint8Array[];
  /** Machines that joined. */
  readonly hosts: HostsView;
  /** Where workers and agents of other machines dial; undefined when the platform has no such port. */
  readonly workerPort: () => WorkerPort | undefined;
  readonly config: ControlPlaneConfig;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Milliseconds of a clock that nobody sets. */
  readonly now: () => number;
  readonly random: (bytes: number) => Uint8Array;
  readonly own: Own;
  /** Told about failures that callers do not get to see. */
  readonly log: { error(message: string, cause: unknown): void };
}

/** What all requests share besides. */
export interface SharedDeps extends ControlPlaneDeps {
  readonly claims: LayerClaims;
  readonly refused: RefusedTries;
  readonly addresses: ClientAddress;
  readonly loads: Loads;
  /** Answers with layers that are on their way, by host. */
  readonly layerSends: Map<string, number>;
}

export interface RequestContext extends SharedDeps {
  readonly principal: Principal;
  /** Network address of the caller. */
  readonly address: string;
  readonly loader: RequestLoader;
}
