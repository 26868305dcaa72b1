import { SvcError } from "../../domain/errors.ts";
import { isRemoved } from "../../domain/removal.ts";
import { requireScope, requireUnbound } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownTemplate } from "./save-template.ts";

/** Throws NOT_FOUND, and CONFLICT while an endpoint names the template. */
export async function deleteTemplate(_: unknown, { id }: { id: string }, context: RequestContext): Promise<boolean> {
  requireScope(context, "deploy");
  requireUnbound(context);
  return context.store.transaction(async (store) => {
    const { name } = await knownTemplate(store, id);
    const users = (await store.endpoints.list()).filter(({ templateId }) => templateId === id);
    const names = users.filter((endpoint) => !isRemoved(endpoint)).map((endpoint) => endpoint.name);
    if (names.length > 0) {
      throw new SvcError("CONFLICT", `The template "${name}" is used by ${names.join(", ")}.`, {
        help: "Give them another templateId, or delete them, first.",
      });
    }
    return store.templates.delete(id);
  });
}
