import { buildCommand } from "@stricli/core";
import { appFlag, endpointParameter, envFlag, jsonFlag, switchFlag, withExamples } from "../flags.ts";

export const statusSpec = buildCommand({
  loader: async () => (await import("../actions/status.ts")).status,
  parameters: {
    flags: {
      app: { ...appFlag, brief: "Only this app" },
      env: { ...envFlag, brief: "Only this environment" },
      why: switchFlag("Explain why workers were started and stopped"),
      json: jsonFlag,
    },
    aliases: { a: "app", e: "env" },
    positional: {
      kind: "tuple",
      parameters: [{ ...endpointParameter("Show this endpoint with its calls"), optional: true }],
    },
  },
  docs: {
    brief: "Show endpoints, their state and their workers",
    fullDescription: withExamples("Shows what is deployed, whether it takes calls, and if not, why.", [
      ["svc status", "Every endpoint of the platform"],
      ["svc status hello", "One endpoint, with example calls"],
      ["svc status hello --why", "Why workers were started and stopped"],
      ["svc status --json", "The same for programs"],
    ]),
  },
});
