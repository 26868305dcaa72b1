/**
 * What a shell runs on Tab: each script asks `svc __complete WORD...`, whose last word is the one being typed, and
 * which answers with lines of completion, tab, description. Without an answer the shell completes files.
 */
export const COMPLETION_SHELLS = ["bash", "zsh", "fish"] as const;
export type CompletionShell = (typeof COMPLETION_SHELLS)[number];

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

export const COMPLETION_SCRIPTS: Readonly<Record<CompletionShell, string>> = { bash, zsh, fish };
