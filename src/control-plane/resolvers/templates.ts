import type { Template } from "../../store/store.ts";
import { requireScope, requireUnbound } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";

export function templates(_: unknown, _args: unknown, context: RequestContext): Promise<Template[]> {
  requireScope(context, "read");
  requireUnbound(context);
  return context.store.templates.list();
}

export const templateFields = {
  envNames: ({ env }: Template) => Object.keys(env).sort(),
};
