import { SvcError } from "../../domain/errors.ts";
import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { isLiveAdmin } from "../new-key.ts";

/** Takes effect at once. Throws NOT_FOUND, and CONFLICT for the last admin key: nobody could make another. */
export async function revokeKey(_: unknown, { id }: { id: string }, context: RequestContext): Promise<boolean> {
  requireScope(context, "admin");
  return context.store.transaction(async (store) => {
    const keys = await store.keys.list();
    if (!keys.some((key) => key.id === id)) {
      throw new SvcError("NOT_FOUND", `There is no key with the id "${id}".`, {
        help: "See myself { keys { id name } }.",
      });
    }
    const now = context.clock();
    if (!keys.some((key) => key.id !== id && isLiveAdmin(key, now))) {
      throw new SvcError("CONFLICT", "This is the last key with the scope admin.", {
        help: "Create another one by createKey first.",
      });
    }
    await store.keys.delete(id);
    return true;
  });
}
