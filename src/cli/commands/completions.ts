/**
 * What a shell runs on Tab: each script asks `svc __complete WORD...`, whose last word is the one being typed, and
 * which answers with lines of completion, tab, description. Without an answer the shell completes files.
 */
import { command } from "../command.ts";

export const COMPLETION_SHELLS = ["bash", "zsh", "fish"] as const;
type CompletionShell = (typeof COMPLETION_SHELLS)[number];

const bash = String.raw`_svc() {
  local word
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$word")
  done < <("${"$"}{COMP_WORDS[0]/#\~/$HOME}" __complete "${"$"}{COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _svc svc
`;

const zsh = String.raw`_svc() {
  local line
  local -a found
  for line in "${"$"}{(@f)$("${"$"}{words[1]/#\~/$HOME}" __complete "${"$"}{(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && found+=("${"$"}{${"$"}{line%%$'\t'*}//:/\\:}:${"$"}{line#*$'\t'}")
  done
  if (( ${"$"}{#found} )); then _describe svc found; else _files; fi
}
compdef _svc svc
`;

const fish = `function __svc_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c svc -a '(__svc_complete)'
`;

const SCRIPTS: Readonly<Record<CompletionShell, string>> = { bash, zsh, fish };

export const completionsCommand = command({
  brief: "Print the script that completes svc in a shell",
  text: "Prints a script for your shell. With it, Tab completes commands, flags and their values.",
  examples: [
    ["echo 'eval \"$(svc completions bash)\"' >> ~/.bashrc", "bash, from the next shell on"],
    ["echo 'eval \"$(svc completions zsh)\"' >> ~/.zshrc", "zsh, after compinit"],
    ["svc completions fish > ~/.config/fish/completions/svc.fish", "fish"],
  ],
  parameters: [
    {
      placeholder: "SHELL",
      brief: COMPLETION_SHELLS.join(", "),
      parse: knownShell,
      proposeCompletions: (partial) => COMPLETION_SHELLS.filter((shell) => shell.startsWith(partial)),
    },
  ],
  run(_flags, shell) {
    this.terminal.write(SCRIPTS[shell as CompletionShell]);
  },
});

function knownShell(text: string): CompletionShell {
  const shell = COMPLETION_SHELLS.find((candidate) => candidate === text);
  if (shell === undefined) throw new Error(`it is ${COMPLETION_SHELLS.join(", ")}`);
  return shell;
}
