/** Keys to the platform: made, and the first of all. */

import { randomBytes } from "node:crypto";
import { type KeyScope, newSecret } from "../domain/api-key.ts";
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
export function newKey(request: KeyRequest, random: (bytes: number) => Uint8Array): { key: ApiKey; secret: string } {
  const { secret, prefix, hash } = newSecret("key");
  const { environmentId = null, endpointId = null, ...rest } = request;
  const key = { id: randomId(random), prefix, hash, ...rest, environmentId, endpointId, lastUsedAt: null };
  return { key, secret };
}

/** Whether the key can still make other keys. */
export function isLiveAdmin(key: ApiKey, now: number): boolean {
  return key.scopes.includes("admin") && (key.expiresAt === null || key.expiresAt > now);
}

/** Makes an admin key when there is none that is valid. Resolves its secret, which is shown only now. */
export async function ensureFirstKey(store: Store, clock: () => number = Date.now): Promise<string | undefined> {
  return store.transaction(async (tx) => {
    const now = clock();
    if ((await tx.keys.list()).some((key) => isLiveAdmin(key, now))) return undefined;
    const request = { name: "first key", scopes: ["admin"], createdAt: now, expiresAt: null } as const;
    const { key, secret } = newKey(request, randomBytes);
    await tx.keys.insert(key);
    const platform = { keyId: null, keyName: "the platform", address: "" };
    await tx.audit.append({
      at: now,
      ...platform,
      action: "key.create",
      target: `first key (${key.id})`,
      detail: "admin",
    });
    return secret;
  });
}
