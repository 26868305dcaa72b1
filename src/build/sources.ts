/** The text of a project's Python files: which of them are worth looking into, and what stands at a place. */
import { createHash } from "node:crypto";
import { closeSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import path from "node:path";
import { SCANNED_FILE_MAX_BYTES } from "../domain/limits.ts";
import type { Diagnostic } from "./build-result.ts";
import type { At } from "./facts.ts";
import type { ProjectFile } from "./project-files.ts";

/** A place in a user's file, as a diagnostic carries it. */
export type Place = Pick<Diagnostic, "file" | "line" | "column" | "source" | "length">;
/** A finding whose place is not yet looked up. */
export type Finding = Pick<Diagnostic, "severity" | "rule" | "message" | "help"> & { readonly at: At };
export type Report = (finding: Finding | Diagnostic) => void;

const MAY_DECLARE =
  /\bEndpoint\b|^[ \t]*@[\w.]+\.(get|post|put|patch|delete|head|options|route|websocket|asgi)\b|\bsvc\b|\bserverless\.start\b|\.with_options\b|^from (runpod_flash|tetra_rp)\b/m;

export class Sources {
  /** By path; undefined for a file that is too large to be read. */
  readonly #texts = new Map<string, string | undefined>();
  readonly #lines = new Map<string, readonly string[]>();
  readonly #modules = new Set<string>();
  /** Files that mention svc, an endpoint, or a name another file gave to Endpoint. */
  readonly candidates: ReadonlySet<string>;
  readonly diagnostics: Diagnostic[] = [];

  constructor(projectDir: string, files: readonly ProjectFile[]) {
    const candidates = new Set<string>();
    const aliases = new Set<string>();
    const links = new Set<string>();
    for (const file of files) {
      if (!file.path.endsWith(".py")) continue;
      for (const name of namesOf(file.path)) this.#modules.add(name);
      const isTooLarge = file.sizeBytes > SCANNED_FILE_MAX_BYTES;
      const read = file.linkTo !== undefined ? linkedText : isTooLarge ? headOf : textOf;
      const text = read(path.join(projectDir, file.path)).replace(/^\ufeff/, "");
      this.#texts.set(file.path, isTooLarge ? undefined : text);
      if (file.linkTo !== undefined) links.add(file.path);
      if (file.linkTo !== undefined || !MAY_DECLARE.test(text)) continue;
      if (isTooLarge) {
        this.diagnostics.push(tooLarge(file.path));
        continue;
      }
      const problem = unreadable(file.path, text);
      if (problem !== undefined) this.diagnostics.push(problem);
      candidates.add(file.path);
      for (const match of text.matchAll(/\bEndpoint\s+as\s+(\w+)|\b(\w+)\s*=\s*Endpoint\b(?!\s*\()/g))
        aliases.add(match[1] ?? match[2]!);
    }
    if (aliases.size > 0) {
      const mention = new RegExp(`\\b(${[...aliases].join("|")})\\b`);
      for (const [file, text] of this.#texts)
        if (text !== undefined && !links.has(file) && mention.test(text)) candidates.add(file);
    }
    this.candidates = candidates;
  }

  get paths(): readonly string[] {
    return [...this.#texts.keys()];
  }

  /** Whether a module or a folder with modules of this name is part of the project. */
  has(name: string): boolean {
    return this.#modules.has(name);
  }

  /** What python/scan/main.py reads. */
  request(): Buffer {
    const fields = [...this.#texts].flatMap(([file, text]) => {
      const letter = this.candidates.has(file) ? "c" : "f";
      const isReadable = text !== undefined && !text.includes("\0");
      return [file, isReadable ? letter : "-", isReadable ? text : ""];
    });
    return Buffer.from(fields.map((field) => `${field}\0`).join(""));
  }

  /** The newest version that a `python_version=` of the files names: of "3.N" the N. */
  newestPython(): number | undefined {
    const named = [...this.candidates].flatMap((file) => [
      ...this.#texts.get(file)!.matchAll(/\bpython_version\s*=\s*["']3\.(\d{1,3})["']/g),
    ]);
    return named.length === 0 ? undefined : Math.max(...named.map((match) => Number(match[1])));
  }

  /** Where `at` stands; what has several lines is marked to the end of its first. */
  place([file, line, column, lastLine, endColumn]: At): Place {
    const source = this.#linesOf(file)[line - 1]?.trimEnd() ?? "";
    const end = lastLine === line ? endColumn : source.length + 1;
    return { file, line, column, source, length: Math.max(1, end - column) };
  }

  /** The text at a place. */
  text([file, line, column, lastLine, endColumn]: At): string {
    const lines = this.#linesOf(file).slice(line - 1, lastLine);
    const last = lines.length - 1;
    return lines
      .map((text, i) => text.slice(i === 0 ? column - 1 : 0, i === last ? endColumn - 1 : undefined))
      .join("\n");
  }

  diagnostic({ at, ...finding }: Finding): Diagnostic {
    return { ...finding, ...this.place(at) };
  }

  #linesOf(file: string): readonly string[] {
    const known = this.#lines.get(file) ?? (this.#texts.get(file) ?? "").split(/\r\n|\r|\n/);
    this.#lines.set(file, known);
    return known;
  }
}

function textOf(file: string): string {
  return readFileSync(file, "utf8");
}

/** A link may lead to a folder, or to what no plain file may be. */
function linkedText(file: string): string {
  const target = statSync(file);
  return target.isFile() && target.size <= SCANNED_FILE_MAX_BYTES ? textOf(file) : "";
}

/** As much of it as a file may have that is looked into. */
function headOf(file: string): string {
  const handle = openSync(file, "r");
  try {
    const head = Buffer.alloc(SCANNED_FILE_MAX_BYTES);
    return head.toString("utf8", 0, readSync(handle, head));
  } finally {
    closeSync(handle);
  }
}

/** Dotted names of a file's module and of the packages around it. */
function namesOf(file: string): string[] {
  const folders = file.split("/").slice(0, -1);
  return [moduleName(file), ...folders.map((_, i) => folders.slice(0, i + 1).join("."))];
}

/** "workers/hello.py" → "workers.hello", "workers/__init__.py" → "workers". */
export function moduleName(file: string): string {
  return file
    .replace(/\.py$/, "")
    .replace(/(^|\/)__init__$/, "")
    .split("/")
    .join(".");
}

function tooLarge(file: string): Diagnostic {
  return {
    severity: "warning",
    rule: "file-too-large",
    message: `${file} is too large to be looked into: an endpoint in it is not deployed.`,
    help: `Declare endpoints in a file below ${SCANNED_FILE_MAX_BYTES / 1024} KiB, and keep data in a file of its own.`,
    file,
  };
}

function unreadable(file: string, text: string): Diagnostic | undefined {
  const error = (rule: string, message: string, help: string): Diagnostic => ({
    severity: "error",
    rule,
    message,
    help,
    file,
  });
  if (text.includes("\ufffd")) return error("encoding", `${file} is not UTF-8 text.`, "Save it as UTF-8.");
  if (text.includes("\0")) return error("syntax-error", `${file} holds a NUL byte.`, "Fix it and build again.");
  return undefined;
}

/** Changes with every byte of what is asked. */
export function digestOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part.length}\0`).update(part);
  return hash.digest("base64url");
}
