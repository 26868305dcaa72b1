import { environmentProblem, secretNames } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { SECRET_MAX_BYTES, SECRET_NAME_MAX_CHARS, SECRETS_PER_ENVIRONMENT_MAX } from "../../domain/limits.ts";
import { isRemoved } from "../../domain/removal.ts";
import { isSecretName, secretLabel } from "../../domain/secret.ts";
import { sealedBytes } from "../../lib/sealed-text.ts";
import type { Environment, Store, StoredSecret } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireEnvironment } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEnvironment } from "../known.ts";
import { codeOf, revisionOf, secretTimes } from "../revision.ts";
import { ensureEnvironment } from "./apps.ts";

interface SecretInput {
  readonly app: string;
  readonly environment: string;
  readonly name: string;
  readonly value: string;
}

/** Seals and stores the value. Workers that were started with the earlier one are replaced. */
export async function setSecret({ input }: { input: SecretInput }, context: RequestContext): Promise<StoredSecret> {
  checkSecret(input);
  return context.store.transaction(async (store) => {
    const environment = await ensureEnvironment(store, input, context);
    requireEnvironment(context, environment.id);
    const existing = await store.secrets.listByEnvironment(environment.id);
    const before = existing.find(({ name }) => name === input.name);
    if (before === undefined && existing.length >= SECRETS_PER_ENVIRONMENT_MAX) {
      throw new SvcError("CONFLICT", `An environment has at most ${SECRETS_PER_ENVIRONMENT_MAX} secrets.`);
    }
    const now = context.clock();
    const secret = {
      environmentId: environment.id,
      name: input.name,
      sealed: context.seal.seal(input.value, secretLabel(environment.id, input.name)),
      createdAt: before?.createdAt ?? now,
      // Two values never have the same time: workers are replaced because it differs.
      updatedAt: Math.max(now, (before?.updatedAt ?? 0) + 1),
    };
    await store.secrets.save(secret);
    await replaceUsers(store, environment, input.name, now);
    const detail = before === undefined ? "made" : "its value replaced";
    await audit(store, context, { action: "secret.set", target: named(input), detail });
    return secret;
  });
}

async function replaceUsers(store: Store, { id }: Environment, secret: string, now: number): Promise<void> {
  const times = await secretTimes(store, id);
  const sizes = new Map((await store.secrets.listByEnvironment(id)).map((one) => [one.name, sealedBytes(one.sealed)]));
  for (const endpoint of await store.endpoints.listByEnvironment(id)) {
    if (isRemoved(endpoint) || !secretNames(endpoint.env).includes(secret)) continue;
    const problem = environmentProblem(endpoint.name, endpoint.env, (name) => sizes.get(name) ?? 0);
    if (problem !== undefined) throw new SvcError("TOO_LARGE", problem);
    const build = endpoint.buildId === null ? undefined : await store.builds.find(endpoint.buildId);
    const code = build === undefined ? null : codeOf(build.manifest, endpoint.name);
    await store.endpoints.update(endpoint.id, { revision: revisionOf(endpoint, code, times), updatedAt: now });
  }
}

function checkSecret({ name, value }: SecretInput): void {
  if (!isSecretName(name)) {
    throw new SvcError(
      "INVALID_NAME",
      `"${name}" cannot name a secret: use letters, digits, "_", "-" and ".", no digit first, at most ${SECRET_NAME_MAX_CHARS}.`,
    );
  }
  if (value === "") throw new SvcError("BAD_INPUT", "The value of a secret must not be empty.");
  if (value.includes("\0")) throw new SvcError("BAD_INPUT", "The value of a secret cannot hold a zero byte.");
  if (Buffer.byteLength(value) > SECRET_MAX_BYTES) {
    throw new SvcError("TOO_LARGE", `The value of a secret has at most ${SECRET_MAX_BYTES} bytes.`);
  }
}

interface SecretName {
  readonly app: string;
  readonly environment: string;
  readonly name: string;
}

/** Throws NOT_FOUND, and CONFLICT while an endpoint uses the secret: its next worker could not start. */
export async function deleteSecret(secret: SecretName, context: RequestContext): Promise<boolean> {
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
    if (await store.secrets.delete(id, name)) {
      await audit(store, context, { action: "secret.delete", target: named(secret) });
      return true;
    }
    throw new SvcError("NOT_FOUND", `${app}/${environment} has no secret "${name}".`, {
      help: `svc secret list --app ${app} --env ${environment} shows all.`,
    });
  });
}

function named({ app, environment, name }: SecretName): string {
  return `${app}/${environment}/${name}`;
}
