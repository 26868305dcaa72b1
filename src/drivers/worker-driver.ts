/**
 * Starts and stops workers on something: processes of this machine, containers, Pods. A driver knows nothing of
 * jobs; a worker it starts dials the platform's socket by itself and proves who it is with its token.
 */
import type { Share } from "../domain/capacity.ts";
import type { EndpointContainer } from "../domain/container.ts";
import type { DriverWishes } from "../domain/driver-offers.ts";
import type { BootType, EndpointKind } from "../domain/endpoint.ts";
import type { ImageStep } from "../domain/image-steps.ts";
import type { Fleet } from "../domain/placement.ts";
import type { Rivals, RivalsAsked, RoomTake } from "../domain/rivals.ts";
import type { MountedVolume, Volume } from "../domain/volume.ts";
import type { StartedHead } from "../domain/worker-protocol.ts";
import type { LauncherChannel } from "./launcher-link.ts";

/** What one build of one endpoint needs on the machine before a worker can start. */
export interface WorkerImage {
  readonly endpointId: string;
  readonly endpointName: string;
  /** Absent: it belongs to none. */
  readonly environmentId?: string | undefined;
  readonly buildId: string;
  readonly sourceLayer: string;
  readonly dependencyLayer: string | null;
  /** Requirements that the base image has, or a base layer must provide, e.g. ["numpy"]. */
  readonly baseDependencies: readonly string[];
  readonly pythonVersion: string;
  readonly handler: string;
  readonly imageName: string;
  /** Packages of Debian that it needs. */
  readonly systemDependencies: readonly string[];
  /** What is built on the image before them. */
  readonly imageSteps: readonly ImageStep[];
  /** The fixed port of its server; absent: none. */
  readonly serverPort?: number | undefined;
  readonly bootType: BootType;
  /** It pulls its jobs over HTTP: by a command of the endpoint's code, or by what the image runs by itself. */
  readonly pulls?: "command" | "image" | undefined;
  /** What the image runs in place of its own entrypoint and command; [] for those. */
  readonly program?: Pick<EndpointContainer, "entrypoint" | "command"> | undefined;
  readonly volumes: readonly MountedVolume[];
  /** Of its environment; undefined: none. */
  readonly cache: Volume | undefined;
}

export interface WorkerSpec {
  readonly workerId: string;
  readonly token: string;
  readonly revision: string;
  readonly image: WorkerImage;
  readonly appName: string;
  readonly environmentName: string;
  readonly kind: EndpointKind;
  readonly env: Readonly<Record<string, string>>;
  readonly maxConcurrency: number;
  /** CPU machine type id, or "" with gpuIds set. */
  readonly instanceIds: string;
  readonly gpuIds: string;
  /** Groups and members of GpuType, best first. */
  readonly gpuPreference: readonly string[];
  readonly gpuCount: number;
  /** vCPUs and memory beyond what the machine declares may be used: workers that run already wait for this one. */
  readonly beyondCapacity: boolean;
  /** What it has of the machine, when that is decided elsewhere: it is not placed, and refused only where it cannot be. */
  readonly share?: Share | undefined;
  /** Labels of the machines that it may run on, a comma list: any of these; absent or "": any machine. */
  readonly hosts?: string | undefined;
  /** The machine whose room it is to have; absent: whichever is best. */
  readonly onHost?: string | undefined;
  /** `host:port` of those that it may dial, its own platform first; absent: where its machine joined. */
  readonly dial?: readonly string[] | undefined;
}

export interface WorkerExit {
  readonly workerId: string;
  readonly code: number | null;
  readonly signal: string | null;
  /** The cause in words: "exited with code 3", "killed: memory limit 2 GB of cpu3c-1-2". */
  readonly reason: string;
  /**
   * "machine": through no fault of its own: no process could be made for it, or whoever started it ended. "silence": its machine does not
   * answer, for whatever reason: that may be what ran there.
   */
  readonly cause?: "machine" | "silence";
}

/** What the machine has (and others that joined), and what workers have of it by their ids. */
export interface Capacity extends Fleet {
  readonly shares: ReadonlyMap<string, Share>;
}

/** What a driver keeps on the disk of this machine for the images it prepared. */
export interface PreparedFiles {
  /** Removes what none of these images needs and nothing used since `before` (milliseconds since the epoch). */
  removeUnused(keep: readonly WorkerImage[], before: number): Promise<void>;
}

/** What a driver tells the rest of the platform. */
export interface DriverHooks {
  bootFailed(workerId: string, failure: object): void;
  log(workerId: string, stream: "stdout" | "stderr", text: string): void;
  /** The same of a program that pulls its jobs: its lines may say which job they are about. */
  programPrinted(workerId: string, stream: "stdout" | "stderr", text: string): void;
  started(head: StartedHead): void;
  /** Workers can be started, and it is known which run: at the start, and after whoever starts them was away. */
  available(): void;
  /** Something to know about the driver itself, for the platform's log. */
  told(line: string, facts: Readonly<Record<string, unknown>>): void;
}

/** Others with workers on the same machines. */
export interface OtherPlatforms {
  /** What they hold and wait for, of those that say so soon. */
  rivals(asked: RivalsAsked): Promise<Rivals>;
  /** The worker finishes what it has, then goes. Throws when its platform says that it is not to, or nothing. */
  take(asked: RoomTake): Promise<void>;
}

export interface WorkerDriver {
  /**
   * Makes the image's files ready: layers unpacked, base layers installed. Idempotent and quick when all is there.
   * `report` gets a line for what takes time. Throws SvcError with what the user can do.
   */
  prepare(image: WorkerImage, report: (line: string) => void): Promise<void>;
  /**
   * Resolves when the start is under way. Throws NO_CAPACITY with the reason when the machine has no room,
   * STARTS_PAUSED while whoever starts workers is away, and books nothing then; the worker's own failures come
   * through onExit.
   */
  start(spec: WorkerSpec): Promise<void>;
  /** SIGTERM now, SIGKILL to the whole tree after `graceMs`. Resolves when the request is on its way. */
  stop(workerId: string, graceMs: number): Promise<void>;
  /** Ids of the workers that run now; undefined while that is not known, because whoever started them is away. */
  list(): Promise<string[] | undefined>;
  /** Of one without a row of this platform's: whether it is to be ended here. Absent: any is. */
  endsAstray?(workerId: string, hasRow: boolean): boolean;
  /** Absent: the machines are this platform's alone. */
  readonly others?: OtherPlatforms;
  /** Those of them whose launcher answers now. */
  vouched(): Promise<readonly string[]>;
  capacity(): Promise<Capacity>;
  onExit(listener: (exit: WorkerExit) => void): void;
  /** The image is of no use any more: its zygote may go. */
  retire(endpointId: string, revision: string): Promise<void>;
  /** Lets go of the workers (they live on) or, with `stopAll`, ends every one. */
  close(options: { stopAll: boolean }): Promise<void>;
}

/** A driver of this machine: its launchers dial the platform's own socket. */
export interface LocalDriver extends WorkerDriver, PreparedFiles {
  /** Call after the socket and the HTTP side listen. */
  open(): Promise<void>;
  /** False: this launcher is not one of the driver's. */
  attachLauncher(secret: string, channel: LauncherChannel): Promise<boolean>;
  /** Base URL of the platform's HTTP side as its workers reach it; once the driver is open. */
  platformUrl(): Promise<string>;
  /** What of these settings its workers cannot have, each a sentence with what to do; once the driver is open. */
  cannotGive(wishes: DriverWishes): readonly string[];
  /** Makes its folder, the workers' own, when it is not there. Throws SvcError; once the driver is open. */
  makeVolume(volume: Volume): Promise<void>;
  /** What the machine lacks of what keeps workers apart, in words; once the driver is open. */
  readonly missingIsolation?: readonly string[];
}
