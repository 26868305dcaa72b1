import { createHmac, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { makePrivateFile } from "../lib/private-file.ts";
import { SEAL_KEY_BYTES } from "../lib/sealed-text.ts";

const KEY_FILE = "secret.key";

/**
 * The key that seals secrets: `<data>/secret.key`, made at the first start, readable by its owner only and outside
 * the database, so that a copy of the database alone opens nothing. Throws DATA_DIRECTORY.
 */
export function readSecretKey(dataDir: string): Uint8Array {
  const file = path.join(dataDir, KEY_FILE);
  makePrivateFile(file, `${randomBytes(SEAL_KEY_BYTES).toString("base64url")}\n`);
  const key = Buffer.from(readFileSync(file, "utf8").trim(), "base64url");
  if (key.length === SEAL_KEY_BYTES) return key;
  throw new SvcError("DATA_DIRECTORY", "The key of the secrets cannot be read: it is not what the platform wrote.", {
    where: file,
    help: "Restore it from a backup. Without it the secrets cannot be opened and must be set again.",
  });
}

/** A key for one purpose alone, made of that of the data directory. */
export function derivedKey(secretKey: Uint8Array, purpose: string): Uint8Array {
  return createHmac("sha256", secretKey).update(purpose).digest();
}
