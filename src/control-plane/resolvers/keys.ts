import { KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import type { ApiKey } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { isLiveAdmin, newKey } from "../keys.ts";
import { knownEndpoint, knownEnvironment } from "../known.ts";

interface KeyInput {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expiresInSeconds?: number | null;
  readonly app?: string | null;
  readonly environment?: string | null;
  readonly endpointId?: string | null;
}

/** The secret is in this answer and nowhere else: the store keeps its hash. */
export async function createKey({ input }: { input: KeyInput }, context: RequestContext) {
  const problems = keyProblems(input);
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join(" "));
  const place = await placeOf(input, context);
  const createdAt = context.clock();
  const lifetime = input.expiresInSeconds ?? null;
  const { key, secret } = newKey(
    {
      name: input.name.trim(),
      scopes: [...new Set(input.scopes)] as KeyScope[],
      createdAt,
      expiresAt: lifetime === null ? null : createdAt + lifetime * 1000,
      ...place,
    },
    context.random,
  );
  await context.store.transaction(async (store) => {
    await store.keys.insert(key);
    await audit(store, context, { action: "key.create", target: named(key), detail: rights(key, input) });
  });
  return { key, secret };
}

function named({ id, name, prefix }: ApiKey): string {
  return `${name} (${id}, ${prefix}…)`;
}

function rights({ scopes, expiresAt }: ApiKey, { app, environment, endpointId }: KeyInput): string {
  const bound = endpointId ? `, only ${endpointId}` : environment ? `, only ${app}/${environment}` : "";
  const until = expiresAt === null ? "" : `, until ${new Date(expiresAt).toISOString()}`;
  return `${scopes.join(", ")}${bound}${until}`;
}

/** Environment of a key for an endpoint that has none: it reaches no environment, where null would reach all. */
const NO_ENVIRONMENT = "";

async function placeOf({ app, environment, endpointId }: KeyInput, { store }: RequestContext) {
  if (endpointId) {
    const endpoint = await knownEndpoint(store, endpointId);
    return { endpointId, environmentId: endpoint.environmentId ?? NO_ENVIRONMENT };
  }
  if (!app || !environment) return {};
  return { environmentId: (await knownEnvironment(store, app, environment)).id };
}

function keyProblems({ name, scopes, expiresInSeconds, app, environment, endpointId }: KeyInput): string[] {
  const problems: string[] = [];
  if (name.trim() === "") problems.push("name must not be empty.");
  const unknown = scopes.filter((scope) => !(KEY_SCOPES as readonly string[]).includes(scope));
  const allowed = KEY_SCOPES.join(", ");
  if (unknown.length > 0) problems.push(`There is no scope ${unknown.join(", ")}; there are ${allowed}.`);
  if (scopes.length === 0) problems.push(`scopes must name at least one of ${allowed}.`);
  if (typeof expiresInSeconds === "number" && expiresInSeconds <= 0) {
    problems.push("expiresInSeconds must be positive; leave it out for a key that does not expire.");
  }
  if (Boolean(app) !== Boolean(environment)) problems.push("Give app and environment, or neither.");
  if (endpointId && environment) problems.push("Give endpointId, or app and environment, not both.");
  if ((endpointId || environment) && scopes.includes("admin")) {
    problems.push("A key with the scope admin cannot be bound to an environment or endpoint.");
  }
  return problems;
}

/** Takes effect at once. Throws NOT_FOUND, and CONFLICT for the last admin key: nobody could make another. */
export async function revokeKey({ id }: { id: string }, context: RequestContext): Promise<boolean> {
  return context.store.transaction(async (store) => {
    const keys = await store.keys.list();
    const revoked = keys.find((key) => key.id === id);
    if (revoked === undefined) {
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
    await audit(store, context, { action: "key.revoke", target: named(revoked) });
    return true;
  });
}

/** Fields of the type Key that are not columns: names of the place it is bound to. */
export const keyFields = {
  async app({ environmentId }: ApiKey, _args: unknown, { loader }: RequestContext) {
    const environment = environmentId ? await loader.environment(environmentId) : undefined;
    return environment === undefined ? null : ((await loader.app(environment.appId))?.name ?? null);
  },
  async environment({ environmentId }: ApiKey, _args: unknown, { loader }: RequestContext) {
    return environmentId ? ((await loader.environment(environmentId))?.name ?? null) : null;
  },
  async endpoint({ endpointId }: ApiKey, _args: unknown, { store }: RequestContext) {
    // Also when the endpoint is gone the key does not look unbound.
    return endpointId === null ? null : ((await store.endpoints.find(endpointId))?.name ?? endpointId);
  },
};
