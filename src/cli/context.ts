import type { CommandContext } from "@stricli/core";
import type { Interrupt } from "./interrupt.ts";
import type { Terminal } from "./terminal.ts";

/** What every command gets as `this`: its only way to the outside world. */
export interface CliContext extends CommandContext {
  readonly terminal: Terminal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The project's directory: where svc was called. */
  readonly cwd: string;
  readonly interrupt: Interrupt;
  /** Ends the process at once, for what cannot wait for the command's end. */
  readonly exit: (code: number) => never;
  /** The command did its work, but the answer is no: exit code 1 without an error. */
  readonly answerNo: () => void;
}
