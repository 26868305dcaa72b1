/** What the driver over several machines is given of a host: what is kept of it, and its agent's connection. */
import { ownImage } from "../../domain/driver-offers.ts";
import type { LayerTicket } from "../../domain/host-protocol.ts";
import { wishesOf } from "../../domain/placement.ts";
import { HELD_FOR_ALL, holdersFor } from "../../domain/pools.ts";
import type { RegistryLogin } from "../../domain/registry.ts";
import type { Frame } from "../../lib/frames.ts";
import type { WorkerImage, WorkerSpec } from "../worker-driver.ts";

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
  /** Uid of the Pod that it is; "": it is none, and runs whatever it is asked for. */
  readonly pod: string;
  /** Whose workers alone may run in the Pod; "": nobody's yet. */
  readonly holder: string;
}

/** Whom Pods are held for that run it. */
export function holdersOf(image: WorkerImage): readonly string[] {
  const { endpointId, environmentId = null, volumes } = image;
  return holdersFor({ endpointId, environmentId, volumes, ownImage: ownImage(image) });
}

/** Files of volumes are where they are, and a Pod runs workers of its holder alone. */
export function mayRun(image: WorkerImage): (host: KnownHost) => boolean {
  // Many hosts are asked for one image.
  const holders = holdersOf(image);
  return ({ sharedVolumes, pod, holder }) => {
    return pod === "" ? sharedVolumes || image.volumes.length === 0 : holders.includes(holder);
  };
}

/** Why it runs nothing but what was prepared there; undefined: it does not matter whose. */
export function keptFor({ pod, holder }: KnownHost): string | undefined {
  if (pod === "" || holder === HELD_FOR_ALL) return undefined;
  return holder === "" ? "it waits for who needs it first" : "it is held for another, or its code is on its way";
}

/** What its agent is given to prepare an image. */
export interface PrepareBody {
  readonly image: WorkerImage;
  readonly layers: readonly LayerTicket[];
  /** Who pulls its container image; absent: anybody. */
  readonly login?: RegistryLogin | undefined;
}

/** What a worker wishes of its machine. */
export function wishesOfWorker({ image, revision, hosts }: WorkerSpec) {
  const { endpointId: id, buildId, imageName, volumes } = image;
  return wishesOf({ id, revision, buildId, imageName, networkVolumeId: volumes.length > 0 ? "volumes" : "", hosts });
}
