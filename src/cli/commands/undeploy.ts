import { buildCommand } from "@stricli/core";
import { appFlag, endpointParameter, envFlag, jsonFlag, switchFlag, withExamples } from "../flags.ts";

export const undeploySpec = buildCommand({
  loader: async () => (await import("../actions/undeploy.ts")).undeploy,
  parameters: {
    flags: {
      all: switchFlag("Remove all endpoints of the app"),
      force: switchFlag("Do not ask"),
      app: appFlag,
      env: { ...envFlag, brief: "Environment; default: every one of the app" },
      json: jsonFlag,
    },
    aliases: { f: "force", a: "app", e: "env" },
    positional: {
      kind: "tuple",
      parameters: [{ ...endpointParameter('Endpoint to remove, or "list"', ["list"]), optional: true }],
    },
  },
  docs: {
    brief: "List or remove endpoints",
    fullDescription: withExamples(
      "Scales the endpoint to zero, lets running work finish, then deletes it. `svc undeploy list` shows every endpoint.",
      [
        ["svc undeploy list", "Show every endpoint of the platform"],
        ["svc undeploy hello", "Remove one endpoint"],
        ["svc undeploy --all", "Remove all endpoints of this directory's app"],
        ["svc undeploy --all --app shop --env staging --force", "The same for a named environment, without a question"],
      ],
    ),
  },
});
