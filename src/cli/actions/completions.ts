import { COMPLETION_SCRIPTS, type CompletionShell } from "../completion-scripts.ts";
import type { CliContext } from "../context.ts";

export function completions(this: CliContext, _flags: object, shell: CompletionShell): void {
  this.terminal.write(COMPLETION_SCRIPTS[shell]);
}
