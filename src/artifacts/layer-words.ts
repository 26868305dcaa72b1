/** How layers are named, and what is said of them, wherever they are kept. */
import { createHash } from "node:crypto";
import { SvcError } from "../domain/errors.ts";

const DIGEST = /^[0-9a-f]{64}$/;

export function isDigest(name: string): boolean {
  return DIGEST.test(name);
}

/** Throws BAD_INPUT for anything but 64 hex digits, so that no path or key can be built from a request. */
export function requireDigest(digest: string): void {
  if (isDigest(digest)) return;
  throw new SvcError("BAD_INPUT", "A layer is named by its SHA-256: 64 lower-case hex digits.");
}

/** What a layer with these bytes is named. */
export async function layerDigest(bytes: AsyncIterable<string | Buffer>): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of bytes) hash.update(chunk);
  return hash.digest("hex");
}

export function layerMissing(digest: string): SvcError {
  return new SvcError("LAYER_MISSING", `The layer ${digest} is not stored on this platform.`, {
    help: "Deploy again: the upload sends every missing layer.",
  });
}

export function layerCorrupt(digest: string, found: string): SvcError {
  return new SvcError("LAYER_CORRUPT", `The uploaded layer hashes to ${found}, not to ${digest}.`, {
    help: "Upload it again; if it fails again, build the project again.",
  });
}

export function layerTooLarge(maxBytes: number): SvcError {
  return new SvcError("TOO_LARGE", `The layer is larger than ${maxBytes} bytes.`);
}

export function otherUpload(digest: string): SvcError {
  return new SvcError("CONFLICT", `Another upload of the layer ${digest} is under way.`);
}

export function wrongOffset(digest: string, there: number, offset: number): SvcError {
  return new SvcError("CONFLICT", `Of the layer ${digest} ${there} bytes are here, not ${offset}.`);
}
