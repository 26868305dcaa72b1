/** The key that tells a user's own records in the build cache from those that somebody else put there. */
import { randomBytes } from "node:crypto";
import { readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { makeFolder } from "../lib/make-folder.ts";
import { makePrivateFile } from "../lib/private-file.ts";

const KEY_BYTES = 32;

/** `<config>/cache.key`, made at first use. Where none can be kept it lasts for this build, to which the cache is empty. */
export function cacheKey(configDir: string): Uint8Array {
  const file = path.join(configDir, "cache.key");
  try {
    return readKey(file) ?? newKey(file);
  } catch {
    return randomBytes(KEY_BYTES);
  }
}

/** Not one that others could have read. */
function readKey(file: string): Uint8Array | undefined {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined || (stat.mode & 0o077) !== 0 || stat.size !== KEY_BYTES) return undefined;
  return readFileSync(file);
}

function newKey(file: string): Uint8Array {
  makeFolder(path.dirname(file), 0o700);
  if (readKey(file) === undefined) rmSync(file, { force: true });
  makePrivateFile(file, randomBytes(KEY_BYTES));
  const key = readKey(file);
  if (key === undefined) throw new Error(`${file} is open to others`);
  return key;
}
