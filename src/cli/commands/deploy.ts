import { buildCommand } from "@stricli/core";
import { appFlag, envFlag, jsonFlag, switchFlag, withExamples } from "../flags.ts";
import { buildFlags } from "./build.ts";

export const deploySpec = buildCommand({
  loader: async () => (await import("../actions/deploy.ts")).deploy,
  parameters: {
    flags: {
      env: { ...envFlag, brief: "Environment; made when missing; default: the only one there is, or production" },
      app: appFlag,
      ...buildFlags,
      preview: switchFlag("Run the build in local containers instead of deploying it"),
      keepRemoved: switchFlag("Keep endpoints that the code no longer declares"),
      json: jsonFlag,
    },
    aliases: { e: "env", a: "app", o: "output" },
  },
  docs: {
    brief: "Build this directory and put its endpoints live",
    fullDescription: withExamples(
      "Builds, shows what will change, uploads what the platform lacks, and waits until every endpoint takes calls.",
      [
        ["svc deploy", "Deploy to the only environment, or to production"],
        ["svc deploy --env staging", "Deploy to staging, making it when missing"],
        ["svc deploy --exclude scipy", "Leave a package out of the artifact"],
        ["svc deploy --preview", "Try the build in containers of this machine until Ctrl+C"],
      ],
    ),
  },
});
