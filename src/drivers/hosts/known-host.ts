/** What the driver over several machines is given of a host: what is kept of it, and its agent's connection. */
import type { LayerTicket } from "../../domain/host-protocol.ts";
import type { RegistryLogin } from "../../domain/registry.ts";
import type { Frame } from "../../lib/frames.ts";
import type { WorkerImage } from "../worker-driver.ts";

/** The agent's connection, once it has proved itself. */
export interface HostChannel {
  readonly isOpen: boolean;
  /** It is not read from at the moment. */
  readonly isPaused: boolean;
  /** In milliseconds of `performance.now()`. */
  readonly lastHeard: number;
  send(type: number, channel: number, head?: object, body?: Uint8Array): void;
  close(): void;
  destroy(): void;
  onFrame: (frame: Frame) => void;
  onClose: () => void;
}

/** What is kept of a host over restarts. */
export interface KnownHost {
  readonly id: string;
  readonly name: string;
  readonly labels: readonly string[];
  readonly driver: string;
  /** Of svc, as its agent said last. */
  readonly version: string;
  readonly sharedVolumes: boolean;
  readonly draining: boolean;
}

/** What its agent is given to prepare an image. */
export interface PrepareBody {
  readonly image: WorkerImage;
  readonly layers: readonly LayerTicket[];
  /** Who pulls its container image; absent: anybody. */
  readonly login?: RegistryLogin | undefined;
}
