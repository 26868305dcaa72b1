import { runProcess } from "../lib/run-process.ts";
import type { Diagnostic } from "./build-result.ts";
import { type PythonModule, placeOf } from "./python-module.ts";

const PARSE = `
import ast, json, sys
found = []
for file, text in json.load(sys.stdin):
    try:
        ast.parse(text, file)
        found.append(None)
    except SyntaxError as error:
        found.append([error.msg, error.lineno or 1, error.offset or 1])
    except ValueError as error:
        found.append([str(error), 1, 1])
print(json.dumps(found))
`;

/**
 * Syntax errors of the modules. Where the grammar stumbles, Python's own parser has the last word (the code is
 * parsed, not run); without an interpreter the grammar's finding stands.
 */
export async function checkSyntax(
  modules: readonly PythonModule[],
  python: () => Promise<string>,
): Promise<Diagnostic[]> {
  const doubtful = modules.filter((module) => module.root.hasError);
  if (doubtful.length === 0) return [];
  const verdicts = await ask(doubtful, python);
  return doubtful.flatMap((module, i): Diagnostic[] => {
    const verdict = verdicts?.[i];
    if (verdict === null) return [];
    if (verdict === undefined) {
      const node = module.root.descendantsOfType("ERROR")[0] ?? module.root;
      return [problem("This is not valid Python.", placeOf(module, node))];
    }
    const [message, line, column] = verdict;
    const source = module.text.split("\n")[line - 1]?.trimEnd() ?? "";
    return [
      problem(`${message[0]?.toUpperCase()}${message.slice(1)}.`, {
        file: module.path,
        line,
        column: Math.max(1, column),
        source,
        length: 1,
      }),
    ];
  });
}

type Verdict = [message: string, line: number, column: number] | null;

async function ask(modules: readonly PythonModule[], python: () => Promise<string>): Promise<Verdict[] | undefined> {
  try {
    const input = JSON.stringify(modules.map((module) => [module.path, module.text]));
    const { code, stdout } = await runProcess(await python(), ["-I", "-S", "-c", PARSE], { input });
    return code === 0 ? (JSON.parse(stdout) as Verdict[]) : undefined;
  } catch {
    return undefined;
  }
}

function problem(message: string, place: Partial<Diagnostic>): Diagnostic {
  return { severity: "error", rule: "syntax-error", message, help: "Fix it and build again.", ...place };
}
