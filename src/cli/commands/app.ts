import { buildCommand, buildRouteMap } from "@stricli/core";
import { jsonFlag, withExamples } from "../flags.ts";

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

export const appRoutes = buildRouteMap({ routes: { list: listSpec }, docs: { brief: "Apps of the platform" } });
