import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";

/** The account of the key. A platform is one account; its fields are in account.ts. */
export function myself(_: unknown, _args: unknown, context: RequestContext): object {
  requireScope(context, "read");
  return {};
}
