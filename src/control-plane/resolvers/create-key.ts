import { KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { newKey } from "../new-key.ts";

interface KeyInput {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly expiresInSeconds?: number | null;
}

/** The secret is in this answer and nowhere else: the store keeps its hash. */
export async function createKey(_: unknown, { input }: { input: KeyInput }, context: RequestContext) {
  requireScope(context, "admin");
  const problems = keyProblems(input);
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join(" "));
  const createdAt = context.clock();
  const lifetime = input.expiresInSeconds ?? null;
  const { key, secret } = newKey(
    {
      name: input.name.trim(),
      scopes: [...new Set(input.scopes)] as KeyScope[],
      createdAt,
      expiresAt: lifetime === null ? null : createdAt + lifetime * 1000,
    },
    context.random,
  );
  await context.store.keys.insert(key);
  return { key, secret };
}

function keyProblems({ name, scopes, expiresInSeconds }: KeyInput): string[] {
  const problems: string[] = [];
  if (name.trim() === "") problems.push("name must not be empty.");
  const unknown = scopes.filter((scope) => !(KEY_SCOPES as readonly string[]).includes(scope));
  const allowed = KEY_SCOPES.join(", ");
  if (unknown.length > 0) problems.push(`There is no scope ${unknown.join(", ")}; there are ${allowed}.`);
  if (scopes.length === 0) problems.push(`scopes must name at least one of ${allowed}.`);
  if (typeof expiresInSeconds === "number" && expiresInSeconds <= 0) {
    problems.push("expiresInSeconds must be positive; leave it out for a key that does not expire.");
  }
  return problems;
}
