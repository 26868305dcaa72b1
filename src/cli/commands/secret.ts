import { buildCommand, buildRouteMap } from "@stricli/core";
import { appFlag, envFlag, jsonFlag, withExamples } from "../flags.ts";

const flags = { app: appFlag, env: envFlag, json: jsonFlag };
const aliases = { a: "app", e: "env" } as const;
const name = { placeholder: "NAME", parse: String, brief: "Name of the secret" };

const setSpec = buildCommand({
  loader: async () => (await import("../actions/secrets.ts")).setSecret,
  parameters: { flags, aliases, positional: { kind: "tuple", parameters: [name] } },
  docs: {
    brief: "Make a secret, or give it a new value",
    fullDescription: withExamples(
      'Stores the value encrypted; it is never shown again. In the code: env={"HF_TOKEN": Secret("HF_TOKEN")}.',
      [
        ["svc secret set HF_TOKEN", "Asks for the value"],
        ["svc secret set HF_TOKEN --env staging < token.txt", "Reads it from a file"],
      ],
    ),
  },
});

const listSpec = buildCommand({
  loader: async () => (await import("../actions/secrets.ts")).listSecrets,
  parameters: { flags, aliases },
  docs: {
    brief: "List the secrets of an environment",
    fullDescription: withExamples("Lists names and times. Values are never shown.", [
      ["svc secret list", "Names and times"],
    ]),
  },
});

const removeSpec = buildCommand({
  loader: async () => (await import("../actions/secrets.ts")).removeSecret,
  parameters: { flags, aliases, positional: { kind: "tuple", parameters: [name] } },
  docs: {
    brief: "Remove a secret",
    fullDescription: withExamples("Refused while a deployed endpoint uses it.", [
      ["svc secret rm HF_TOKEN", "Remove it"],
    ]),
  },
});

export const secretRoutes = buildRouteMap({
  routes: { set: setSpec, list: listSpec, rm: removeSpec },
  docs: { brief: "Secrets of an environment" },
});
