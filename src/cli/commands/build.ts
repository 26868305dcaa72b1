import { buildCommand } from "@stricli/core";
import { jsonFlag, switchFlag, withExamples } from "../flags.ts";

/** Flags that `svc build` and `svc deploy` have in common. */
export const buildFlags = {
  noDeps: switchFlag("Install the listed packages only, without what they depend on"),
  exclude: {
    kind: "parsed",
    parse: String,
    optional: true,
    placeholder: "PACKAGES",
    brief: "Packages to leave out of the artifact, separated by commas",
  },
  output: {
    kind: "parsed",
    parse: String,
    optional: true,
    placeholder: "FILE",
    brief: "Name of the archive in .svc/; default: artifact.tar.gz",
  },
} as const;

export const buildSpec = buildCommand({
  loader: async () => (await import("../actions/build.ts")).build,
  parameters: {
    flags: {
      ...buildFlags,
      keepBuild: switchFlag("Keep the temporary directory .svc/.build"),
      explain: switchFlag("Show every endpoint's settings and functions, and what was left out"),
      json: jsonFlag,
    },
    aliases: { o: "output" },
  },
  docs: {
    brief: "Build the artifact of this directory without deploying it",
    fullDescription: withExamples(
      "Finds every Endpoint, installs its dependencies for Linux x86_64 and packs .svc/artifact.tar.gz.",
      [
        ["svc build", "Build and say what was built"],
        ["svc build --explain", "Show what was found and how it is configured"],
        ["svc build --exclude scipy,pandas", "Leave packages out of the artifact"],
      ],
    ),
  },
});
