/** What the project's files declare, from an earlier build or from Python, and what Python does not accept in them. */
import { onPath } from "../lib/on-path.ts";
import { askPython } from "../python/version.ts";
import type { Diagnostic } from "./build-result.ts";
import { type Facts, NO_FACTS } from "./facts.ts";
import type { Interpreter } from "./interpreter.ts";
import { PythonScanner, ScannerGone, scannerDigest } from "./python-scanner.ts";
import { digestOf, type Sources } from "./sources.ts";

/** The facts of the build before, so that an unchanged project starts no Python. */
export interface ScanMemory {
  readonly recall: () => Remembered | undefined;
  readonly remember: (facts: Remembered) => Promise<void>;
}

interface Remembered {
  /** Changes with every file and with what reads them. */
  readonly key: string;
  readonly facts: Facts;
}

type Environment = Readonly<Record<string, string | undefined>>;

export async function readFacts(
  sources: Sources,
  scanner: PythonScanner,
  environment: Environment,
  memory: ScanMemory | undefined,
): Promise<{ readonly facts: Facts; readonly diagnostics: Diagnostic[] }> {
  if (sources.candidates.size === 0) return { facts: NO_FACTS, diagnostics: [] };
  const python = await scanner.python();
  const request = sources.request();
  const key = memory === undefined ? "" : digestOf(scannerDigest(), python.executable, python.version, request);
  const known = memory?.recall();
  if (known !== undefined && known.key === key) return { facts: known.facts, diagnostics: [] };
  const asked = await ask(scanner, request);
  if ("diagnostic" in asked) return { facts: NO_FACTS, diagnostics: [asked.diagnostic] };
  if (asked.problems.length === 0) {
    await memory?.remember({ key, facts: asked });
    return { facts: asked, diagnostics: [] };
  }
  const newer = await fromNewerPython(sources, python, request, environment);
  const facts = newer?.facts ?? asked;
  const reader = newer?.python ?? python;
  return { facts, diagnostics: facts.problems.map((problem) => syntaxError(problem, sources, reader)) };
}

async function ask(scanner: PythonScanner, request: Uint8Array): Promise<Facts | { readonly diagnostic: Diagnostic }> {
  try {
    return await scanner.ask(request);
  } catch (error) {
    if (!(error instanceof ScannerGone)) throw error;
    const { file, message } = error;
    const what = file === undefined ? "the project's files" : file;
    const place = file === undefined ? {} : { file };
    return {
      diagnostic: {
        severity: "error",
        rule: "unreadable",
        message: `Python could not read ${what}: it ${message}.`,
        help: "Make the file simpler, or leave it out by .svcignore.",
        ...place,
      },
    };
  }
}

/** An endpoint may declare a newer Python than the local one, whose syntax only that one reads. */
async function fromNewerPython(
  sources: Sources,
  local: Interpreter,
  request: Uint8Array,
  environment: Environment,
): Promise<{ readonly facts: Facts; readonly python: Interpreter } | undefined> {
  const python = await newerPython(sources, local, environment);
  if (python === undefined) return undefined;
  const scanner = new PythonScanner(async () => python);
  try {
    const facts = await ask(scanner, request);
    return "diagnostic" in facts ? undefined : { facts, python };
  } finally {
    scanner.close();
  }
}

/** The newest on the PATH that is not newer than what an endpoint declares. */
export async function newerPython(
  sources: Pick<Sources, "newestPython">,
  local: Interpreter,
  environment: Environment,
): Promise<Interpreter | undefined> {
  for (let minor = sources.newestPython() ?? 0; minor > minorOf(local); minor--) {
    const file = onPath(`python3.${minor}`, environment.PATH ?? "");
    const found = file === undefined ? undefined : await askPython(file, { env: environment });
    if (found !== undefined && "executable" in found) return found;
  }
  return undefined;
}

function syntaxError(
  [file, message, line, column]: Facts["problems"][number],
  sources: Sources,
  python: Interpreter,
): Diagnostic {
  const at = Math.max(1, column);
  const declared = sources.newestPython() ?? 0;
  const sentence = `${message[0]?.toUpperCase()}${message.slice(1)}.`;
  const isOlder = declared > minorOf(python);
  return {
    severity: "error",
    rule: "syntax-error",
    message: isOlder ? `${sentence} This machine's Python ${python.version} says so.` : sentence,
    help: isOlder
      ? `Fix it, or put the python3.${declared} that an endpoint declares on the PATH: it reads newer syntax.`
      : "Fix it and build again.",
    ...sources.place([file, line, at, line, at + 1]),
  };
}

function minorOf({ version }: Interpreter): number {
  return Number(version.split(".")[1]);
}
