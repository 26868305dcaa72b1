import { secretNames } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { isRemoved } from "../../domain/removal.ts";
import { requireEnvironment, requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEnvironment } from "../known-environment.ts";

interface SecretName {
  readonly app: string;
  readonly environment: string;
  readonly name: string;
}

/** Throws NOT_FOUND, and CONFLICT while an endpoint uses the secret: its next worker could not start. */
export async function deleteSecret(_: unknown, secret: SecretName, context: RequestContext): Promise<boolean> {
  requireScope(context, "deploy");
  const { app, environment, name } = secret;
  return context.store.transaction(async (store) => {
    const { id } = await knownEnvironment(store, app, environment);
    requireEnvironment(context, id);
    const endpoints = (await store.endpoints.listByEnvironment(id)).filter((endpoint) => !isRemoved(endpoint));
    const users = endpoints.filter(({ env }) => secretNames(env).includes(name)).map((endpoint) => endpoint.name);
    if (users.length > 0) {
      throw new SvcError("CONFLICT", `The secret "${name}" is used by ${users.join(", ")}.`, {
        help: "Deploy them without it first.",
      });
    }
    if (await store.secrets.delete(id, name)) return true;
    throw new SvcError("NOT_FOUND", `${app}/${environment} has no secret "${name}".`, {
      help: `svc secret list --app ${app} --env ${environment} shows all.`,
    });
  });
}
