/**
 * Syntax errors of the modules. The grammar forgives what Python does not (mixed tabs, a body that is not indented), so
 * Python's own parser has the last word: the code is parsed, not run. A file it has accepted is not shown to it again.
 */
import { createHash } from "node:crypto";
import { runProcess } from "../lib/run-process.ts";
import type { Diagnostic } from "./build-result.ts";
import type { Interpreter } from "./interpreter.ts";
import { type PythonModule, placeOf } from "./python-module.ts";

export interface SyntaxCheck {
  readonly python: () => Promise<Interpreter>;
  /** What Python accepted at an earlier build. Without it Python is asked only where the grammar stumbles. */
  readonly memory?: SyntaxMemory;
  /** Asked instead of a Python that is started for it. */
  readonly judge?: SyntaxJudge;
}

/** One verdict for each file, given as its name and text. */
export type SyntaxJudge = (files: readonly (readonly [name: string, text: string])[]) => Promise<Verdict[]>;

export interface SyntaxMemory {
  readonly accepted: () => readonly string[];
  /** Takes the place of the earlier ones. */
  readonly remember: (accepted: readonly string[]) => Promise<void>;
}

/** For each module: null when it is right, undefined when Python could not be asked. */
export type SyntaxVerdicts = ReadonlyMap<PythonModule, Verdict | undefined>;
export type Verdict = [message: string, line: number, column: number] | null;

export async function askSyntax(modules: readonly PythonModule[], check: SyntaxCheck): Promise<SyntaxVerdicts> {
  const { memory, judge } = check;
  const known = new Set(memory?.accepted());
  const asked = modules.filter((module) =>
    memory === undefined ? judge !== undefined || module.root.hasError : !known.has(digestOf(module.text)),
  );
  if (asked.length === 0) return new Map();
  const answers = await (judge === undefined ? ask(asked, check.python) : judged(asked, judge));
  const verdicts = new Map(asked.map((module, i) => [module, answers?.[i]]));
  if (memory !== undefined && answers !== undefined) {
    const accepted = modules.filter((module) => verdicts.get(module) === null || !verdicts.has(module));
    await memory.remember(accepted.map((module) => digestOf(module.text)).sort());
  }
  return verdicts;
}

/**
 * `otherPython`: the newest version that an endpoint declares, when it is newer than the one that was asked. Then only a
 * file that the grammar rejects too is a finding, and no more than a warning.
 */
export function syntaxProblems(verdicts: SyntaxVerdicts, otherPython: string | undefined): Diagnostic[] {
  return [...verdicts].flatMap(([module, verdict]): Diagnostic[] => {
    if (verdict === null) return [];
    if (verdict === undefined) {
      if (!module.root.hasError) return [];
      const node = module.root.descendantsOfType("ERROR")[0] ?? module.root;
      return [{ ...problem("This is not valid Python."), ...placeOf(module, node) }];
    }
    const [message, line, column] = verdict;
    const sentence = `${message[0]?.toUpperCase()}${message.slice(1)}.`;
    const source = module.text.split("\n")[line - 1]?.trimEnd() ?? "";
    const place = { file: module.path, line, column: Math.max(1, column), source, length: 1 };
    if (otherPython === undefined) return [{ ...problem(sentence), ...place }];
    if (!module.root.hasError) return [];
    const doubt = `${sentence} This machine's Python says so; it is older than the ${otherPython} of an endpoint.`;
    return [{ ...problem(doubt), severity: "warning", help: `Check it with python${otherPython}.`, ...place }];
  });
}

/** The program that judges: a JSON list of files a line in, their verdicts a line out. */
export const PARSE = `
import ast, json, sys, warnings
warnings.simplefilter("ignore")
for line in sys.stdin:
    found = []
    for file, text in json.loads(line):
        try:
            ast.parse(text, file)
            found.append(None)
        except SyntaxError as error:
            found.append([error.msg, error.lineno or 1, error.offset or 1])
        except (ValueError, RecursionError, MemoryError) as error:
            found.append([str(error) or "too deeply nested", 1, 1])
    print(json.dumps(found), flush=True)
`;

async function judged(modules: readonly PythonModule[], judge: SyntaxJudge): Promise<Verdict[] | undefined> {
  return judge(modules.map((module) => [module.path, module.text])).catch(() => undefined);
}

async function ask(
  modules: readonly PythonModule[],
  python: () => Promise<Interpreter>,
): Promise<Verdict[] | undefined> {
  try {
    const input = JSON.stringify(modules.map((module) => [module.path, module.text]));
    const { executable } = await python();
    const { code, stdout } = await runProcess(executable, ["-I", "-S", "-c", PARSE], { input });
    return code === 0 ? (JSON.parse(stdout) as Verdict[]) : undefined;
  } catch {
    return undefined;
  }
}

function digestOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function problem(message: string): Pick<Diagnostic, "severity" | "rule" | "message" | "help"> {
  return { severity: "error", rule: "syntax-error", message, help: "Fix it and build again." };
}
