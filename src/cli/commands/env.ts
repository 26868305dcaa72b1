import { buildCommand, buildRouteMap } from "@stricli/core";
import { appFlag, jsonFlag, withExamples } from "../flags.ts";

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

export const envRoutes = buildRouteMap({ routes: { list: listSpec }, docs: { brief: "Environments of an app" } });
