import { buildCommand } from "@stricli/core";
import { VERSION } from "../../domain/version.ts";
import type { CliContext } from "../context.ts";
import { withExamples } from "../flags.ts";

export const versionSpec = buildCommand({
  func(this: CliContext) {
    this.terminal.out(VERSION);
  },
  parameters: {},
  docs: {
    brief: "Print the version of svc",
    fullDescription: withExamples("Prints the version of the command line, the platform and the Python package.", [
      ["svc version", "The same as svc --version"],
    ]),
  },
});
