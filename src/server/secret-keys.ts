/**
 * The keys that seal secrets. The first seals; the others open what was sealed before, until a start has sealed that anew.
 *
 *   SVC_SECRET_KEYS, SVC_SECRET_KEY_FILE   keys that are kept elsewhere, the newest first
 *   <data>/secret.key                      made at the first start when neither is set; one that is there counts after those
 */
import { createHash, createHmac, randomBytes } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { rename } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { SECRET_KEYS_MAX } from "../domain/limits.ts";
import { syncFolder } from "../lib/durable-folder.ts";
import { makePrivateFile } from "../lib/private-file.ts";
import { SEAL_KEY_BYTES } from "../lib/sealed-text.ts";
import { temporaryName } from "../lib/write-file-atomic.ts";

const KEY_FILE = "secret.key";
const ID_CHARS = 8;
const NO_KEY = `is no key: ${SEAL_KEY_BYTES} random bytes in base64, as "openssl rand -base64 ${SEAL_KEY_BYTES}" prints them`;

export type SecretKeys = readonly [Uint8Array, ...Uint8Array[]];

/** One line per key, as in config.ts. */
export const secretKeyKeys = {
  /** Keys that seal secrets, base64, the newest first: comma list. */
  SVC_SECRET_KEYS: z
    .string()
    .transform((text, context): SecretKeys => {
      const keys = text.split(",").map(decoded);
      if (isWhole(keys)) return keys;
      context.addIssue(
        keys.length > SECRET_KEYS_MAX ? `has more than ${SECRET_KEYS_MAX} keys` : `a part of it ${NO_KEY}`,
      );
      return z.NEVER;
    })
    .optional(),
  /** A file of them, one a line. */
  SVC_SECRET_KEY_FILE: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
};

/** Keys that are kept elsewhere than in the data directory. */
export interface SecretKeysConfig {
  readonly keys: SecretKeys | undefined;
  readonly file: string | undefined;
}

/** Throws CONFIG_INVALID. */
export function readSecretKeysConfig(given: z.output<z.ZodObject<typeof secretKeyKeys>>): SecretKeysConfig {
  const { SVC_SECRET_KEYS: keys, SVC_SECRET_KEY_FILE: file } = given;
  if (keys === undefined || file === undefined) return { keys, file };
  throw new SvcError("CONFIG_INVALID", "SVC_SECRET_KEYS and SVC_SECRET_KEY_FILE: only one of them counts", {
    help: "Set the one that has all keys.",
  });
}

/**
 * The key of the data directory is made at the first start, readable by its owner only and outside the database, so that a copy of the
 * database alone opens nothing. Throws DATA_DIRECTORY, CONFIG_INVALID.
 */
export function readSecretKeys(dataDir: string, { keys, file }: SecretKeysConfig): SecretKeys {
  const own = path.join(dataDir, KEY_FILE);
  const given = file === undefined ? (keys ?? []) : keysOf(file);
  if (given.length === 0) makePrivateFile(own, lines([randomBytes(SEAL_KEY_BYTES)]));
  const all = [...given, ...(existsSync(own) ? keysOf(own) : [])];
  return all.filter((key, index) => all.findIndex((other) => sameKey(key, other)) === index) as [Uint8Array];
}

/** Puts a new key before those of the data directory. */
export async function addSecretKey(dataDir: string): Promise<void> {
  const own = path.join(dataDir, KEY_FILE);
  const keys = existsSync(own) ? keysOf(own) : [];
  await write(own, [randomBytes(SEAL_KEY_BYTES), ...keys]);
}

/** Leaves only the newest in the data directory. */
export async function dropOlderSecretKeys(dataDir: string): Promise<void> {
  const own = path.join(dataDir, KEY_FILE);
  await write(own, keysOf(own).slice(0, 1));
}

/** Keys for one purpose alone, made of each: what was signed with any of them holds. */
export function derivedKeys(secretKeys: SecretKeys, purpose: string): SecretKeys {
  return secretKeys.map((key) => createHmac("sha256", key).update(purpose).digest()) as unknown as SecretKeys;
}

/** What a key is called; tells nothing of it. */
export function keyId(key: Uint8Array): string {
  return createHash("sha256").update("svc secret key").update(key).digest("hex").slice(0, ID_CHARS);
}

function keysOf(file: string): SecretKeys {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw unreadable(file, (error as Error).message, error);
  }
  const keys = text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map(decoded);
  if (isWhole(keys)) return keys;
  const count = keys.length;
  throw unreadable(
    file,
    count === 0 ? "it is empty" : count > SECRET_KEYS_MAX ? `it has ${count} lines` : `a line ${NO_KEY}`,
  );
}

/** On the disk when it resolves: what is sealed with a key must not outlive it. */
async function write(file: string, keys: readonly Uint8Array[]): Promise<void> {
  const draft = temporaryName(file);
  makePrivateFile(draft, lines(keys));
  await rename(draft, file);
  await syncFolder(path.dirname(file));
}

function unreadable(file: string, why: string, cause?: unknown): SvcError {
  return new SvcError("DATA_DIRECTORY", `The keys of the secrets cannot be read: ${why}.`, {
    where: file,
    help: "Restore the file from a backup. Without it the secrets cannot be opened and must be set again.",
    cause,
  });
}

/** Reads base64 with either alphabet. */
function decoded(text: string): Uint8Array {
  const plain = text.trim();
  return /^[\w+/-]+=*$/.test(plain) ? Buffer.from(plain, "base64") : Buffer.alloc(0);
}

function isWhole(keys: readonly Uint8Array[]): keys is SecretKeys {
  return keys.length > 0 && keys.length <= SECRET_KEYS_MAX && keys.every(({ length }) => length === SEAL_KEY_BYTES);
}

function lines(keys: readonly Uint8Array[]): string {
  return keys.map((key) => `${Buffer.from(key).toString("base64url")}\n`).join("");
}

function sameKey(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0;
}
