import { buildCommand } from "@stricli/core";
import { LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../../domain/limits.ts";
import { appFlag, endpointParameter, envFlag, jsonFlag, switchFlag, wholeNumber, withExamples } from "../flags.ts";

export const logsSpec = buildCommand({
  loader: async () => (await import("../actions/logs.ts")).logs,
  parameters: {
    flags: {
      follow: switchFlag("Go on with new lines until Ctrl+C"),
      job: { kind: "parsed", parse: String, optional: true, placeholder: "ID", brief: "Only lines of this job" },
      tail: {
        kind: "parsed",
        parse: wholeNumber(1, LOG_TAIL_MAX_LINES),
        optional: true,
        placeholder: "N",
        brief: `Newest lines; default: ${LOG_TAIL_DEFAULT_LINES}`,
      },
      app: appFlag,
      env: envFlag,
      json: { ...jsonFlag, brief: "Print one JSON object a line" },
    },
    aliases: { f: "follow", n: "tail", a: "app", e: "env" },
    positional: { kind: "tuple", parameters: [endpointParameter("Endpoint")] },
  },
  docs: {
    brief: "Show what an endpoint's workers print",
    fullDescription: withExamples(
      "Shows what functions print and what workers report, oldest first. Secrets are masked.",
      [
        ["svc logs hello", "The newest lines"],
        ["svc logs hello --follow", "And those to come"],
        ["svc logs hello --job 3c5e… --json", "Of one job, for programs"],
      ],
    ),
  },
});
