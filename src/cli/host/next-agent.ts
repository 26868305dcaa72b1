/**
 * A newer agent in the place of this one, on SIGUSR2 (`systemctl reload svc-host`): the same process with another program, so whoever
 * looks after it sees no end, and its launcher and workers run on.
 */
import { runProcess } from "../../lib/run-process.ts";
import type { CliContext } from "../context.ts";
import { svcProgram } from "../platform/install-service.ts";

interface Problem {
  readonly message: string;
  readonly help: string;
}

export class NextAgent {
  /** As svc was found when this agent began: after an upgrade the same words lead to the new version. */
  readonly #words: readonly string[];
  readonly #env: CliContext["env"];
  #isWanted = false;
  #want = () => {};

  constructor(context: CliContext) {
    this.#words = svcProgram(context);
    this.#env = context.env;
    process.on("SIGUSR2", () => {
      this.#isWanted = true;
      this.#want();
    });
  }

  /** `then` is called each time when it is wanted, with what keeps the next agent from running. */
  whenWanted(then: (problem: Problem | undefined) => void): void {
    let looks = false;
    this.#want = () => {
      if (looks) return;
      looks = true;
      this.#problem()
        .then(then)
        .finally(() => {
          looks = false;
        })
        .catch(() => {});
    };
    if (this.#isWanted) this.#want();
  }

  /** In the place of this process, which had to let go of everything. */
  begin(): never {
    const [program = "", ...args] = [...this.#words, ...process.argv.slice(2)];
    return process.execve!(program, [program, ...args], this.#env as Record<string, string>);
  }

  async #problem(): Promise<Problem | undefined> {
    const [program = "", ...args] = this.#words;
    const { code, stderr } = await runProcess(program, [...args, "--version"], { env: this.#env }).catch(
      (error: Error) => ({ code: 1, stderr: error.message }),
    );
    if (code === 0) return undefined;
    const [why = ""] = stderr.trim().split("\n");
    return {
      message: `This agent goes on: ${[program, ...args].join(" ")} does not start${why === "" ? "" : ` (${why})`}.`,
      help: "Install svc again, and let it hand over once more: kill -USR2, or systemctl reload.",
    };
  }
}
