import { buildCommand, buildRouteMap } from "@stricli/core";
import { KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { appFlag, envFlag, jsonFlag, withExamples } from "../flags.ts";

const createSpec = buildCommand({
  loader: async () => (await import("../actions/keys.ts")).createKey,
  parameters: {
    flags: {
      scopes: {
        kind: "parsed",
        parse: scopes,
        optional: true,
        placeholder: "LIST",
        brief: `What it may do, of ${KEY_SCOPES.join(",")}; default: deploy,invoke`,
      },
      expires: {
        kind: "parsed",
        parse: duration,
        optional: true,
        placeholder: "TIME",
        brief: "How long it is valid: 30d, 12h, 90m; default: until it is revoked",
      },
      endpoint: { kind: "parsed", parse: String, optional: true, placeholder: "NAME", brief: "Only for this endpoint" },
      app: { ...appFlag, brief: "App of --env; default: the name of this directory" },
      env: { ...envFlag, brief: "Only for this environment" },
      json: jsonFlag,
    },
    aliases: { a: "app", e: "env" },
    positional: { kind: "tuple", parameters: [{ placeholder: "NAME", parse: String, brief: "Name of the key" }] },
  },
  docs: {
    brief: "Make an API key",
    fullDescription: withExamples("Prints the new key, once. Needs a key with the scope admin.", [
      ["svc key create ci --scopes deploy --env staging", "May deploy to one environment"],
      ["svc key create website --scopes invoke --endpoint hello", "May call one endpoint"],
      ["svc key create guest --scopes read --expires 7d", "May look, for a week"],
    ]),
  },
});

const listSpec = buildCommand({
  loader: async () => (await import("../actions/keys.ts")).listKeys,
  parameters: { flags: { json: jsonFlag } },
  docs: {
    brief: "List the API keys",
    fullDescription: withExamples("Lists every key with its rights and its last use. Keys themselves are not shown.", [
      ["svc key list", "Every key"],
    ]),
  },
});

const revokeSpec = buildCommand({
  loader: async () => (await import("../actions/keys.ts")).revokeKey,
  parameters: {
    flags: { json: jsonFlag },
    positional: { kind: "tuple", parameters: [{ placeholder: "KEY", parse: String, brief: "Its id or name" }] },
  },
  docs: {
    brief: "Revoke an API key",
    fullDescription: withExamples("The key is refused from that moment. The last admin key is kept.", [
      ["svc key revoke ci", "By its name"],
    ]),
  },
});

export const keyRoutes = buildRouteMap({
  routes: { create: createSpec, list: listSpec, revoke: revokeSpec },
  docs: { brief: "API keys of the platform" },
});

function scopes(text: string): KeyScope[] {
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !(KEY_SCOPES as readonly string[]).includes(name));
  if (unknown.length > 0) throw new Error(`a list of ${KEY_SCOPES.join(", ")} is needed, separated by commas`);
  return names as KeyScope[];
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** "30d" → seconds. */
function duration(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,6})([smhd])$/.exec(text.trim()) ?? [];
  if (count === undefined) throw new Error("a time like 30d, 12h or 90m is needed");
  return Number(count) * UNIT_SECONDS[unit!]!;
}
