import { buildCommand, buildRouteMap } from "@stricli/core";
import { appFlag, jsonFlag, switchFlag, withExamples } from "../flags.ts";

const name = { placeholder: "ENVIRONMENT", parse: String, brief: "Name of the environment" };

const listSpec = buildCommand({
  loader: async () => (await import("../actions/lists.ts")).listEnvironments,
  parameters: { flags: { app: appFlag, json: jsonFlag }, aliases: { a: "app" } },
  docs: {
    brief: "List the environments of an app",
    fullDescription: withExamples("Lists the environments of an app and how many endpoints each has.", [
      ["svc env list", "Environments of this directory's app"],
      ["svc env list --app shop --json", "Of a named app, for programs"],
    ]),
  },
});

const createSpec = buildCommand({
  loader: async () => (await import("../actions/environments.ts")).createEnvironment,
  parameters: {
    flags: { app: appFlag, json: jsonFlag },
    aliases: { a: "app" },
    positional: { kind: "tuple", parameters: [name] },
  },
  docs: {
    brief: "Make an environment",
    fullDescription: withExamples(
      "Makes an empty environment, and the app when it is missing. svc deploy does it too.",
      [["svc env create staging", "In this directory's app"]],
    ),
  },
});

const deleteSpec = buildCommand({
  loader: async () => (await import("../actions/environments.ts")).deleteEnvironment,
  parameters: {
    flags: { app: appFlag, force: switchFlag("Do not ask"), json: jsonFlag },
    aliases: { a: "app", f: "force" },
    positional: { kind: "tuple", parameters: [name] },
  },
  docs: {
    brief: "Delete an environment",
    fullDescription: withExamples(
      "Deletes the environment with its endpoints, builds, secrets and keys. Running work is finished first.",
      [["svc env delete staging", "Of this directory's app"]],
    ),
  },
});

export const envRoutes = buildRouteMap({
  routes: { list: listSpec, create: createSpec, delete: deleteSpec },
  docs: { brief: "Environments of an app" },
});
