/**
 * What the names of a module are bound to, in the order of the source. Bindings under a condition (if, try, for …)
 * are marked: whether they happen is only known when the code runs.
 */
import type { Node } from "web-tree-sitter";
import { absoluteName } from "./module-graph.ts";
import { type PythonModule, parts, textOf } from "./python-module.ts";

export type Binding = {
  /** Offset in the file from which on the name is bound. */
  readonly at: number;
  readonly conditional: boolean;
  readonly node: Node;
} & (
  | { readonly kind: "module"; readonly module: string }
  | { readonly kind: "member"; readonly module: string; readonly member: string }
  | { readonly kind: "value"; readonly value: Node }
  | { readonly kind: "added"; readonly value: Node }
  | { readonly kind: "definition" }
  /** Changed in place, bound by a loop, unpacked, deleted. */
  | { readonly kind: "opaque"; readonly why: string }
);

export interface ImportSite {
  /** Absolute dotted name. */
  readonly module: string;
  /** `from module import member`. */
  readonly member?: string;
  readonly node: Node;
  readonly conditional: boolean;
}

export interface ModuleScope {
  readonly bindings: ReadonlyMap<string, readonly Binding[]>;
  /** Modules of `from m import *`. */
  readonly stars: readonly string[];
  /** Imports that run when the module is imported. */
  readonly imports: readonly ImportSite[];
}

const CHANGING_METHODS = new Set([
  "append",
  "extend",
  "insert",
  "update",
  "setdefault",
  "pop",
  "remove",
  "clear",
  "sort",
]);

export function readScope(module: PythonModule): ModuleScope {
  const reader = new ScopeReader(module);
  for (const statement of parts(module.root)) reader.visit(statement, false);
  return reader;
}

class ScopeReader implements ModuleScope {
  readonly bindings = new Map<string, Binding[]>();
  readonly stars: string[] = [];
  readonly imports: ImportSite[] = [];
  readonly #module: PythonModule;

  constructor(module: PythonModule) {
    this.#module = module;
  }

  visit(statement: Node, conditional: boolean): void {
    switch (statement.type) {
      case "import_statement":
      case "import_from_statement":
        this.#import(statement, conditional);
        break;
      case "expression_statement":
        for (const expression of parts(statement)) this.#expression(expression, conditional);
        break;
      case "function_definition":
      case "class_definition":
        this.#define(statement, statement, conditional);
        break;
      case "decorated_definition":
        this.#define(statement, statement.childForFieldName("definition"), conditional);
        break;
      case "for_statement":
        this.#opaque(statement.childForFieldName("left"), conditional, "is bound by a loop");
        this.#blocks(statement);
        break;
      case "if_statement":
        // Types only: nothing of it happens when the code runs.
        if (!/^if\s+(\w+\.)?TYPE_CHECKING\s*:/.test(textOf(this.#module, statement))) this.#blocks(statement);
        break;
      case "try_statement":
      case "with_statement":
      case "while_statement":
      case "match_statement":
        this.#blocks(statement);
        break;
      case "delete_statement":
        this.#opaque(statement, conditional, "is deleted");
    }
  }

  #add(name: string, binding: Binding): void {
    const known = this.bindings.get(name);
    if (known === undefined) this.bindings.set(name, [binding]);
    else known.push(binding);
  }

  #opaque(target: Node | null, conditional: boolean, why: string): void {
    if (target === null) return;
    for (const name of boundNames(this.#module, target)) {
      this.#add(name, { kind: "opaque", why, node: target, at: target.endIndex, conditional });
    }
  }

  #import(statement: Node, conditional: boolean): void {
    const base = { at: statement.endIndex, conditional, node: statement };
    for (const found of importsOf(this.#module, statement)) {
      if (found.module === undefined) continue;
      this.imports.push({ module: found.module, member: found.member, node: statement, conditional });
      if (found.star) this.stars.push(found.module);
      else if (found.member === undefined) this.#add(found.name, { ...base, kind: "module", module: found.binds });
      else this.#add(found.name, { ...base, kind: "member", module: found.module, member: found.member });
    }
  }

  #define(statement: Node, definition: Node | null, conditional: boolean): void {
    const name = definition?.childForFieldName("name");
    if (!name) return;
    this.#add(textOf(this.#module, name), { kind: "definition", at: statement.endIndex, conditional, node: statement });
  }

  #blocks(statement: Node): void {
    for (const part of parts(statement)) {
      if (part.type === "block") for (const inner of parts(part)) this.visit(inner, true);
      else if (part.type.endsWith("_clause")) this.#blocks(part);
    }
  }

  #expression(expression: Node, conditional: boolean): void {
    if (expression.type === "assignment") {
      this.#assignment(expression, conditional);
    } else if (expression.type === "augmented_assignment") {
      const left = expression.childForFieldName("left");
      const value = expression.childForFieldName("right");
      const base = { at: expression.endIndex, conditional, node: expression };
      if (left?.type === "identifier" && value && textOf(this.#module, expression.child(1)!) === "+=") {
        this.#add(textOf(this.#module, left), { ...base, kind: "added", value });
      } else this.#opaque(left, conditional, "is changed in place");
    } else if (expression.type === "call") {
      const called = expression.childForFieldName("function");
      const method = called?.type === "attribute" ? called.childForFieldName("attribute") : null;
      if (!method || !CHANGING_METHODS.has(textOf(this.#module, method))) return;
      this.#opaque(
        called!.childForFieldName("object"),
        conditional,
        `is changed by .${textOf(this.#module, method)}()`,
      );
    }
  }

  #assignment(expression: Node, conditional: boolean): void {
    const left = expression.childForFieldName("left");
    const right = expression.childForFieldName("right");
    if (left === null || right === null) return;
    // a = b = value
    if (right.type === "assignment") this.#assignment(right, conditional);
    if (left.type === "identifier") {
      const base = { at: expression.endIndex, conditional, node: expression };
      this.#add(textOf(this.#module, left), { ...base, kind: "value", value: lastOfChain(right) });
    } else {
      const why = left.type === "subscript" ? "is changed in place" : "is unpacked from a sequence";
      this.#opaque(left, conditional, why);
    }
  }
}

function lastOfChain(node: Node): Node {
  const right = node.type === "assignment" ? node.childForFieldName("right") : null;
  return right === null ? node : lastOfChain(right);
}

/** Names a target binds or changes: `a`, `a, b`, `a[0]`, `del a`. */
function boundNames(module: PythonModule, target: Node): string[] {
  if (target.type === "identifier") return [textOf(module, target)];
  if (target.type === "subscript") return boundNames(module, target.childForFieldName("value")!);
  if (target.type === "attribute" || target.type === "call") return [];
  return parts(target).flatMap((part) => boundNames(module, part));
}

interface FoundImport {
  /** Absolute name; undefined for a relative import that leaves the project. */
  readonly module: string | undefined;
  readonly name: string;
  /** Module the name stands for, in `import a.b` the first part. */
  readonly binds: string;
  readonly member?: string;
  readonly star?: boolean;
}

/** What one import statement binds, one entry a name. */
export function importsOf(module: PythonModule, statement: Node): FoundImport[] {
  const names = statement.childrenForFieldName("name").map((node) => {
    const alias = node.type === "aliased_import" ? node.childForFieldName("alias") : null;
    const name = node.type === "aliased_import" ? node.childForFieldName("name")! : node;
    return { name: dotted(module, name), alias: alias === null ? undefined : textOf(module, alias) };
  });
  if (statement.type === "import_statement") {
    return names.map(({ name, alias }) => {
      const first = name.split(".")[0]!;
      return { module: name, name: alias ?? first, binds: alias === undefined ? first : name };
    });
  }
  const source = statement.childForFieldName("module_name");
  if (source === null) return [];
  const text = dotted(module, source);
  const dots = /^\.*/.exec(text)![0].length;
  const from = absoluteName(module, dots, text.slice(dots));
  if (parts(statement).some((part) => part.type === "wildcard_import")) {
    return [{ module: from, name: "*", binds: "", star: true }];
  }
  return names.map(({ name, alias }) => ({ module: from, name: alias ?? name, binds: "", member: name }));
}

function dotted(module: PythonModule, node: Node): string {
  return textOf(module, node).replace(/\s+/g, "");
}
