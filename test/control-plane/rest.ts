/** The management API as its REST clients have it. */
import type { TestPlatform } from "./platform.ts";

export interface RestAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads any field of any answer
  readonly json: any;
  readonly headers: Headers;
}

/** Sends with the admin key, or with `key`; a body that is a text goes as it is. */
export async function rest(
  platform: TestPlatform,
  method: string,
  path: string,
  body?: unknown,
  key: string | null = platform.adminKey,
): Promise<RestAnswer> {
  const response = await fetch(platform.url + path, {
    method,
    headers: { "content-type": "application/json", ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text), headers: response.headers };
}

/** A key with these scopes, bound as `place` says. */
export async function keyWith(platform: TestPlatform, scopes: readonly string[], place: object = {}): Promise<string> {
  const { data, errors } = await platform.ask("mutation($input: KeyInput!) { createKey(input: $input) { secret } }", {
    input: { name: "k", scopes, ...place },
  });
  if (errors !== undefined) throw new Error(errors[0]!.message);
  return data.createKey.secret;
}
