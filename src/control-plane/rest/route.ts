/** A REST route as data, and how its body is read. */
import { z } from "zod";
import { SvcError } from "../../domain/errors.ts";
import type { RequestContext } from "../context.ts";

export type Body = Readonly<Record<string, unknown>>;

export interface RestCall {
  /** Of the path; "" where it has none. */
  readonly id: string;
  readonly body: Body;
  readonly query: URLSearchParams;
  readonly context: RequestContext;
}

export interface Route {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Parts behind the root; ":id" is any. */
  readonly path: readonly string[];
  /** Only for a key that is bound to nothing. */
  readonly unbound?: boolean;
  /** Resolves what is sent as JSON; undefined: nothing, with 204. */
  readonly answer: (call: RestCall) => Promise<object | undefined>;
}

// A field that is null counts as not given, and one that is unknown is passed over.
export const text = z.string().nullish();
export const number = z.number().nullish();
export const flag = z.boolean().nullish();
export const texts = z.array(z.string()).nullish();
export const record = z.record(z.string(), z.string()).nullish();

/** Throws BAD_INPUT with every field that does not fit. */
export function read<T extends z.ZodType>(schema: T, body: Body): z.output<T> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}.`);
  throw new SvcError("BAD_INPUT", [...new Set(problems)].slice(0, 20).join(" "));
}

/** Variables as the resolvers take them. */
export function entries(env: Readonly<Record<string, string>> | null | undefined) {
  return env && Object.entries(env).map(([key, value]) => ({ key, value }));
}

/** The same back. */
export function variables(env: readonly { readonly key: string; readonly value: string }[]): Record<string, string> {
  return Object.fromEntries(env.map(({ key, value }) => [key, value]));
}

/** What a part of the API has whose things this platform does not have. */
export const nothing = async (): Promise<[]> => [];
