/** One Python that stays and judges the syntax of what was saved: starting one for each save would cost more than the build. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { PARSE, type SyntaxJudge, type Verdict } from "../build/check-syntax.ts";
import type { Interpreter } from "../build/interpreter.ts";

export class PythonJudge {
  readonly #python: () => Promise<Interpreter>;
  /** Text of each file as Python accepted it last. */
  readonly #accepted = new Map<string, string>();
  #child: ChildProcess | undefined;
  #waiting: { resolve(line: string): void; reject(error: Error): void }[] = [];
  #closed = false;

  constructor(python: () => Promise<Interpreter>) {
    this.#python = python;
  }

  readonly judge: SyntaxJudge = async (files) => {
    const asked = files.filter(([name, text]) => this.#accepted.get(name) !== text);
    if (asked.length === 0) return files.map(() => null);
    const verdicts = JSON.parse(await this.#ask(JSON.stringify(asked))) as Verdict[];
    const byName = new Map(asked.map(([name], i) => [name, verdicts[i] ?? null]));
    for (const [name, text] of asked) if (byName.get(name) === null) this.#accepted.set(name, text);
    return files.map(([name]) => byName.get(name) ?? null);
  };

  close(): void {
    this.#closed = true;
    this.#child?.kill("SIGKILL");
  }

  async #ask(line: string): Promise<string> {
    const { executable } = await this.#python();
    const child = this.#child ?? this.#start(executable);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      child.stdin!.write(`${line}\n`);
    });
  }

  #start(executable: string): ChildProcess {
    if (this.#closed) throw new Error("It is closed.");
    const child = spawn(executable, ["-I", "-S", "-c", PARSE], { stdio: ["pipe", "pipe", "ignore"] });
    const ended = () => {
      if (this.#child === child) this.#child = undefined;
      for (const { reject } of this.#waiting.splice(0)) reject(new Error("Python has ended."));
    };
    child.on("error", ended).on("exit", ended);
    child.stdin.on("error", () => {});
    createInterface({ input: child.stdout }).on("line", (line) => this.#waiting.shift()?.resolve(line));
    this.#child = child;
    return child;
  }
}
