import { randomBytes } from "node:crypto";
import type { Store } from "../store/store.ts";
import { isLiveAdmin, newKey } from "./new-key.ts";

/** Makes an admin key when there is none that is valid. Resolves its secret, which is shown only now. */
export async function ensureFirstKey(store: Store, clock: () => number = Date.now): Promise<string | undefined> {
  return store.transaction(async (tx) => {
    const now = clock();
    if ((await tx.keys.list()).some((key) => isLiveAdmin(key, now))) return undefined;
    const request = { name: "first key", scopes: ["admin"], createdAt: now, expiresAt: null } as const;
    const { key, secret } = newKey(request, randomBytes);
    await tx.keys.insert(key);
    return secret;
  });
}
