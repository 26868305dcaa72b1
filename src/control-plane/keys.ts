/** Keys to the platform: made, and the first of all. */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { givenKey, type KeyScope, type NewSecret, newSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import type { ApiKey, Store } from "../store/store.ts";
import { randomId } from "./ids.ts";

interface KeyRequest {
  readonly name: string;
  readonly scopes: readonly KeyScope[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** What the key is bound to; null: nothing. */
  readonly environmentId?: string | null;
  readonly endpointId?: string | null;
}

/** The record to keep and the secret to show once. */
export function newKey(
  request: KeyRequest,
  random: (bytes: number) => Uint8Array,
  { secret, prefix, hash }: NewSecret = newSecret("key"),
): { key: ApiKey; secret: string } {
  const { environmentId = null, endpointId = null, ...rest } = request;
  const key = { id: randomId(random), prefix, hash, ...rest, environmentId, endpointId, lastUsedAt: null };
  return { key, secret };
}

/** Whether the key can still make other keys. */
export function isLiveAdmin(key: ApiKey, now: number): boolean {
  return key.scopes.includes("admin") && (key.expiresAt === null || key.expiresAt > now);
}

/**
 * Makes an admin key when there is none that is valid, or takes that of the file, if one is named. Resolves the secret of one that was made,
 * which is shown only now. Throws CONFIG_INVALID.
 */
export async function ensureFirstKey(
  store: Store,
  clock: () => number = Date.now,
  file?: string,
): Promise<string | undefined> {
  return store.transaction(async (tx) => {
    const now = clock();
    if ((await tx.keys.list()).some((key) => isLiveAdmin(key, now))) return undefined;
    const request = { name: "first key", scopes: ["admin"], createdAt: now, expiresAt: null } as const;
    const given = file === undefined ? undefined : keyIn(file);
    const { key, secret } = newKey(request, randomBytes, given);
    await tx.keys.insert(key);
    const platform = { keyId: null, keyName: "the platform", address: "" };
    await tx.audit.append({
      at: now,
      ...platform,
      action: "key.create",
      target: `first key (${key.id})`,
      detail: "admin",
    });
    return given === undefined ? secret : undefined;
  });
}

function keyIn(file: string): NewSecret {
  const help =
    'It has svc_ and 32 random bytes in base64url: printf "svc_%s" "$(openssl rand -base64 32 | tr +/ -_ | tr -d =)"';
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new SvcError("CONFIG_INVALID", `SVC_FIRST_KEY_FILE: ${(cause as Error).message}`, { help, cause });
  }
  const given = givenKey(text);
  if (given === undefined)
    throw new SvcError("CONFIG_INVALID", "SVC_FIRST_KEY_FILE: what is in it is no API key", { where: file, help });
  return given;
}
