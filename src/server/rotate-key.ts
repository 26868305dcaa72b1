/**
 * A new key for the secrets of a data directory whose platform is stopped:
 *
 *   a new key before the old ones ──▶ all that is sealed is sealed with it ──▶ the old ones go
 *
 * Killed in between, both keys are there: the platform starts with them, and the command begins anew.
 */
import { existsSync } from "node:fs";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import type { Log } from "../lib/log.ts";
import { DATABASE_FILE } from "../store/platform-database.ts";
import type { SealedAnew } from "../store/seal-anew.ts";
import type { Config } from "./config.ts";
import { addSecretKey, dropOlderSecretKeys, keyId } from "./secret-keys.ts";
import { openState } from "./state.ts";

export interface RotatedKey extends SealedAnew {
  /** What the new key is called. */
  readonly key: string;
}

/** Throws CONFLICT where the keys are kept elsewhere, and as the start of a platform does. */
export async function rotateKey(config: Config, log: Log): Promise<RotatedKey> {
  const { dataDir, secretKeys } = config;
  if (secretKeys.keys !== undefined || secretKeys.file !== undefined) {
    throw new SvcError("CONFLICT", "The keys of this platform are kept outside its data directory.", {
      where: secretKeys.file ?? "SVC_SECRET_KEYS",
      help: "Put a new key before the others there, and restart the platform (docs/operate/secret-keys.md).",
    });
  }
  if (!existsSync(path.join(dataDir, DATABASE_FILE))) {
    throw new SvcError("NOT_FOUND", "No platform was ever started here: there is no key.", { where: dataDir });
  }
  const lost = Promise.withResolvers<never>();
  lost.promise.catch(() => {});
  const opening = openState({
    config,
    log,
    beforeKeys: () => addSecretKey(dataDir),
    lost: lost.reject,
    full: lost.reject,
  });
  const state = await Promise.race([opening, lost.promise]);
  try {
    // A value that no key opens is lost with the old key or without it.
    await dropOlderSecretKeys(dataDir);
  } finally {
    await state.close();
  }
  return { key: keyId(state.secretKeys[0]), ...state.sealedAnew! };
}
