import type { Node } from "web-tree-sitter";
import type { Diagnostic } from "./build-result.ts";

/** A place in a user's file, as a diagnostic carries it. */
export type Place = Pick<Diagnostic, "file" | "line" | "column" | "source" | "length">;

/** One parsed file of the project. */
export interface PythonModule {
  /** Relative to the project, with "/". */
  readonly path: string;
  /** Dotted name from the project's root: "workers.hello". */
  readonly name: string;
  /** The file is a package's __init__.py. */
  readonly isPackage: boolean;
  readonly text: string;
  readonly root: Node;
}

export function textOf(module: PythonModule, node: Node): string {
  return module.text.slice(node.startIndex, node.endIndex);
}

/** Where `node` stands; a node of several lines is marked to the end of its first. */
export function placeOf(module: PythonModule, node: Node): Place {
  return placeAt(module.path, module.text, node.startIndex, node.endIndex);
}

export function placeAt(file: string, text: string, start: number, end: number): Place {
  const lineStart = text.lastIndexOf("\n", start - 1) + 1;
  const nextBreak = text.indexOf("\n", start);
  const lineEnd = nextBreak === -1 ? text.length : nextBreak;
  let line = 1;
  for (let i = text.indexOf("\n"); i !== -1 && i < lineStart; i = text.indexOf("\n", i + 1)) line++;
  return {
    file,
    line,
    column: start - lineStart + 1,
    source: text.slice(lineStart, lineEnd).trimEnd(),
    length: Math.max(1, Math.min(end, lineEnd) - start),
  };
}

/** The named children that are not comments. */
export function parts(node: Node): Node[] {
  return node.namedChildren.filter((child) => child.type !== "comment" && child.type !== "line_continuation");
}
