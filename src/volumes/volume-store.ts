/** Volumes and the files in them, for whoever is outside: workers have them as folders. */
import type { Readable } from "node:stream";
import type { Volume } from "../domain/volume.ts";

/** Names from the volume's folder downwards, checked by `volumePathParts`; [] is the volume itself. */
export type VolumePath = readonly string[];

export interface VolumeEntry {
  readonly name: string;
  /** A link is never followed. */
  readonly kind: "file" | "folder" | "link" | "other";
  /** 0 unless it is a file. */
  readonly sizeBytes: number;
  /** Milliseconds since the epoch. */
  readonly modifiedAt: number;
}

export interface VolumeFile extends VolumeEntry {
  /** Exactly `sizeBytes`, or it fails: the file may be cut meanwhile. Read it to its end or destroy it. */
  readonly bytes: Readable;
}

/** A part of what becomes a file once it is complete. */
export interface UploadPart {
  /** A UUID, the same for all parts. */
  readonly id: string;
  /** What follows there is replaced: a part may be sent again. */
  readonly offset: number;
  readonly complete: boolean;
  readonly bytes: AsyncIterable<Buffer>;
}

export interface VolumeFiles {
  /** What is there, and then, of a folder, what is in it, in no order. Throws NOT_FOUND. */
  entries(path: VolumePath): AsyncGenerator<VolumeEntry>;
  /** Throws NOT_FOUND, BAD_INPUT for anything but a file. */
  read(path: VolumePath): Promise<VolumeFile>;
  /** Resolves how many bytes have arrived. The file is there, with the folders around it, after the complete part, in one step. */
  write(path: VolumePath, part: UploadPart): Promise<number>;
  /** Nothing of the upload stays. */
  abandon(uploadId: string): Promise<void>;
  /** A folder goes with all in it when `recursive`, else only when it is empty. Throws NOT_FOUND, CONFLICT. */
  remove(path: VolumePath, recursive: boolean): Promise<void>;
}

export interface VolumeUse {
  /** Undefined until it has been measured. */
  readonly sizeBytes: number | undefined;
  /** The smallest that a deployed endpoint sets; undefined: none. */
  readonly limitBytes: number | undefined;
}

export interface VolumeStore {
  names(place: Pick<Volume, "app" | "environment">): Promise<string[]>;
  use(volume: Volume): VolumeUse;
  /** Throws NOT_FOUND. */
  files(volume: Volume): Promise<VolumeFiles>;
  /** Throws CONFLICT when it is there. */
  create(volume: Volume): Promise<void>;
  /** With all its files. Throws NOT_FOUND. */
  delete(volume: Volume): Promise<void>;
}
