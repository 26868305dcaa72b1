import { buildCommand, buildRouteMap } from "@stricli/core";
import { jsonFlag, switchFlag, withExamples } from "../flags.ts";

const listSpec = buildCommand({
  loader: async () => (await import("../actions/lists.ts")).listApps,
  parameters: { flags: { json: jsonFlag } },
  docs: {
    brief: "List the apps of the platform",
    fullDescription: withExamples("Lists every app with its environments.", [
      ["svc app list", "Every app"],
      ["svc app list --json", "The same for programs"],
    ]),
  },
});

const deleteSpec = buildCommand({
  loader: async () => (await import("../actions/environments.ts")).deleteApp,
  parameters: {
    flags: { force: switchFlag("Do not ask"), json: jsonFlag },
    aliases: { f: "force" },
    positional: { kind: "tuple", parameters: [{ placeholder: "APP", parse: String, brief: "Name of the app" }] },
  },
  docs: {
    brief: "Delete an app",
    fullDescription: withExamples(
      "Deletes the app with its environments and endpoints. Running work is finished first.",
      [["svc app delete shop", "With all its environments"]],
    ),
  },
});

export const appRoutes = buildRouteMap({
  routes: { list: listSpec, delete: deleteSpec },
  docs: { brief: "Apps of the platform" },
});
