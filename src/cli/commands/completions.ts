import { buildCommand } from "@stricli/core";
import { COMPLETION_SHELLS } from "../completion-scripts.ts";
import type { CliContext } from "../context.ts";
import { withExamples } from "../flags.ts";

export const completionsSpec = buildCommand({
  loader: async () => (await import("../actions/completions.ts")).completions,
  parameters: {
    positional: {
      kind: "tuple",
      parameters: [
        {
          placeholder: "SHELL",
          brief: COMPLETION_SHELLS.join(", "),
          parse: knownShell,
          proposeCompletions: (partial: string) => COMPLETION_SHELLS.filter((shell) => shell.startsWith(partial)),
        },
      ],
    },
  },
  docs: {
    brief: "Print the script that completes svc in a shell",
    fullDescription: withExamples(
      "Prints a script for your shell. With it, Tab completes commands, flags and their values.",
      [
        ["echo 'eval \"$(svc completions bash)\"' >> ~/.bashrc", "bash, from the next shell on"],
        ["echo 'eval \"$(svc completions zsh)\"' >> ~/.zshrc", "zsh, after compinit"],
        ["svc completions fish > ~/.config/fish/completions/svc.fish", "fish"],
      ],
    ),
  },
});

function knownShell(this: CliContext, text: string) {
  const shell = COMPLETION_SHELLS.find((candidate) => candidate === text);
  if (shell === undefined) throw new Error(`it is ${COMPLETION_SHELLS.join(", ")}`);
  return shell;
}
