import { buildCommand } from "@stricli/core";
import { appFlag, envFlag, jsonFlag, switchFlag, withExamples } from "../flags.ts";

export const rollbackSpec = buildCommand({
  loader: async () => (await import("../actions/rollback.ts")).rollback,
  parameters: {
    flags: {
      to: {
        kind: "parsed",
        parse: String,
        optional: true,
        placeholder: "BUILD",
        brief: "Build to go back to; default: the one before the live one",
      },
      list: switchFlag("Show the builds and change nothing"),
      keepRemoved: switchFlag("Keep endpoints that the build does not have"),
      app: appFlag,
      env: envFlag,
      json: jsonFlag,
    },
    aliases: { a: "app", e: "env" },
  },
  docs: {
    brief: "Make an earlier build live again",
    fullDescription: withExamples(
      "Code, settings and environment variables are those of the build; secrets keep their present values. Running work is finished first.",
      [
        ["svc rollback", "To the build before the live one"],
        ["svc rollback --list", "Which builds there are"],
        ["svc rollback --to k3v9x0q2m5w8ab --env staging", "To a named build"],
      ],
    ),
  },
});
