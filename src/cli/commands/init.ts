import { buildCommand } from "@stricli/core";
import { switchFlag, withExamples } from "../flags.ts";

export const initSpec = buildCommand({
  loader: async () => (await import("../actions/init.ts")).init,
  parameters: {
    flags: { force: switchFlag("Overwrite existing files without asking") },
    aliases: { f: "force" },
    positional: {
      kind: "tuple",
      parameters: [{ placeholder: "PROJECT_NAME", parse: String, brief: 'Directory to create; "." is this one' }],
    },
  },
  docs: {
    brief: "Start a project from working examples",
    fullDescription: withExamples(
      "Creates a project with one endpoint of each kind. Only local files are made, nothing is deployed.",
      [
        ["svc init my-project", "Make the directory my-project"],
        ["svc init . --force", "Fill this directory, overwriting what is there"],
      ],
    ),
  },
});
