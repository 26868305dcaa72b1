/** The project's Python files by dotted name. A file is read and parsed the first time somebody asks for it. */
import { readFileSync } from "node:fs";
import path from "node:path";
import type { ProjectFile } from "./project-files.ts";
import type { PythonModule } from "./python-module.ts";
import type { PythonParser } from "./python-parser.ts";

export class ModuleGraph {
  readonly #projectDir: string;
  readonly #parser: PythonParser;
  readonly #fileByName = new Map<string, string>();
  readonly #packages = new Set<string>();
  readonly #parsed = new Map<string, PythonModule>();

  constructor(projectDir: string, files: readonly ProjectFile[], parser: PythonParser) {
    this.#projectDir = projectDir;
    this.#parser = parser;
    for (const { path: file } of files) {
      if (!file.endsWith(".py")) continue;
      this.#fileByName.set(moduleName(file), file);
      const folders = file.split("/").slice(0, -1);
      for (let depth = 1; depth <= folders.length; depth++) this.#packages.add(folders.slice(0, depth).join("."));
    }
  }

  /** Whether a module or a folder with modules of this name is part of the project. */
  has(name: string): boolean {
    return this.#fileByName.has(name) || this.#packages.has(name);
  }

  /** The module of a dotted name; undefined when it is not a file of the project. */
  byName(name: string): PythonModule | undefined {
    const file = this.#fileByName.get(name);
    return file === undefined ? undefined : this.byFile(file);
  }

  byFile(file: string, text = readFileSync(path.join(this.#projectDir, file), "utf8")): PythonModule {
    const known = this.#parsed.get(file);
    if (known !== undefined) return known;
    const source = text.replace(/^\ufeff/, "");
    const module: PythonModule = {
      path: file,
      name: moduleName(file),
      isPackage: file === "__init__.py" || file.endsWith("/__init__.py"),
      text: source,
      root: this.#parser.parse(source),
    };
    this.#parsed.set(file, module);
    return module;
  }

  get parsed(): readonly PythonModule[] {
    return [...this.#parsed.values()];
  }
}

/** "workers/hello.py" → "workers.hello", "workers/__init__.py" → "workers". */
export function moduleName(file: string): string {
  return file
    .replace(/\.py$/, "")
    .replace(/(^|\/)__init__$/, "")
    .split("/")
    .join(".");
}

/** The absolute name of `from ..sibling import x` inside `module`; undefined when it leaves the project. */
export function absoluteName(module: PythonModule, dots: number, tail: string): string | undefined {
  if (dots === 0) return tail;
  const folders = module.name === "" ? [] : module.name.split(".");
  const keep = folders.length - (module.isPackage ? dots - 1 : dots);
  if (keep < 0) return undefined;
  return [...folders.slice(0, keep), ...(tail === "" ? [] : [tail])].join(".");
}
