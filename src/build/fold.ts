/** Constant folding: the value of an expression over module-level names, without running anything. */
import type { Node } from "web-tree-sitter";
import type { Meaning, NamesInScope } from "./names-in-scope.ts";
import { type PythonModule, parts, textOf } from "./python-module.ts";
import { foldString } from "./python-string.ts";
import type { Value } from "./value.ts";

const DEPTH_MAX = 60;
const REPEAT_MAX = 10_000;

export class Folder {
  readonly #names: NamesInScope;

  constructor(names: NamesInScope) {
    this.#names = names;
  }

  fold(module: PythonModule, node: Node, depth = 0): Value {
    const unknown = (why: string): Value => ({ kind: "unknown", why, node, module });
    if (depth > DEPTH_MAX) return unknown("it is defined by itself or nested too deeply");
    const inner = (child: Node) => this.fold(module, child, depth + 1);
    switch (node.type) {
      case "string":
      case "concatenated_string": {
        const folded = foldString(module, node, inner);
        return "value" in folded ? { kind: "string", value: folded.value, node, module } : unknown(folded.why);
      }
      case "integer":
        return number(module, node, textOf(module, node), false) ?? unknown("it is not a plain number");
      case "float":
        return number(module, node, textOf(module, node), true) ?? unknown("it is not a plain number");
      case "true":
      case "false":
        return { kind: "boolean", value: node.type === "true", node, module };
      case "none":
        return { kind: "none", node, module };
      case "list":
      case "tuple":
      case "expression_list":
        return this.#list(module, node, depth);
      case "dictionary":
        return this.#dict(module, node, depth);
      case "parenthesized_expression":
        return parts(node)[0] === undefined ? unknown("it is empty") : { ...inner(parts(node)[0]!), node };
      case "unary_operator": {
        const value = inner(node.childForFieldName("argument")!);
        if (value.kind !== "number") return unknown("it is computed");
        return textOf(module, node).startsWith("-") ? { ...value, value: -value.value, node } : { ...value, node };
      }
      case "binary_operator":
        return this.#binary(module, node, depth);
      case "identifier":
      case "attribute":
        return { ...this.#named(module, node, depth), node, module };
      case "subscript":
        return { ...this.#subscript(module, node, depth), node, module };
      case "call":
        return this.#call(module, node, depth);
      default:
        return unknown(WHY[node.type] ?? "it is computed");
    }
  }

  #list(module: PythonModule, node: Node, depth: number): Value {
    const items: Value[] = [];
    for (const part of parts(node)) {
      if (part.type !== "list_splat") {
        items.push(this.fold(module, part, depth + 1));
        continue;
      }
      const spread = this.fold(module, part.namedChild(0)!, depth + 1);
      if (spread.kind === "list") items.push(...spread.items);
      else
        items.push({ kind: "unknown", why: whyNot(spread, "only a list or tuple can follow *"), node: part, module });
    }
    return { kind: "list", items, tuple: node.type !== "list", node, module };
  }

  #dict(module: PythonModule, node: Node, depth: number): Value {
    const entries: [Value, Value][] = [];
    for (const part of parts(node)) {
      if (part.type === "pair") {
        const key = this.fold(module, part.childForFieldName("key")!, depth + 1);
        entries.push([key, this.fold(module, part.childForFieldName("value")!, depth + 1)]);
        continue;
      }
      const spread = this.fold(module, part.namedChild(0) ?? part, depth + 1);
      if (spread.kind !== "dict")
        return { kind: "unknown", why: whyNot(spread, "only a dict can follow **"), node: part, module };
      entries.push(...(spread.entries as [Value, Value][]));
    }
    return { kind: "dict", entries, node, module };
  }

  #binary(module: PythonModule, node: Node, depth: number): Value {
    const left = this.fold(module, node.childForFieldName("left")!, depth + 1);
    const right = this.fold(module, node.childForFieldName("right")!, depth + 1);
    const operator = textOf(module, node.childForFieldName("operator")!);
    return { ...operate(left, operator, right), node, module } as Value;
  }

  #named(module: PythonModule, node: Node, depth: number): Value {
    return this.#meant(this.#names.meaningOf(module, node), module, node, depth + 1);
  }

  #meant(meaning: Meaning, module: PythonModule, node: Node, depth: number): Value {
    const unknown = (why: string): Value => ({ kind: "unknown", why, node, module });
    switch (meaning.kind) {
      case "svc": {
        const [family, member, extra] = meaning.path;
        if ((family === "GpuType" || family === "GpuGroup") && member !== undefined) {
          // GpuType.X.value and .name are the same GPU.
          if (extra === undefined || extra === "value" || extra === "name")
            return { kind: "gpu", family, member, node, module };
        }
        return unknown(`svc.${meaning.path.join(".")} is not a constant`);
      }
      case "expression":
        if (meaning.node.id === node.id && meaning.module === module) return unknown("it is an attribute of an object");
        return this.fold(meaning.module, meaning.node, depth + 1);
      case "added": {
        const before = this.#meant(meaning.before, module, node, depth + 1);
        return { ...operate(before, "+", this.fold(meaning.module, meaning.node, depth + 1)), node, module } as Value;
      }
      case "outside":
        return unknown(`${meaning.name} is outside the project`);
      case "module":
        return unknown(`${meaning.name} is a module`);
      case "definition":
        return unknown("it is a function or a class");
      case "unknown":
        return unknown(meaning.why);
    }
  }

  #subscript(module: PythonModule, node: Node, depth: number): Value {
    const unknown = (why: string): Value => ({ kind: "unknown", why, node, module });
    const target = node.childForFieldName("value")!;
    const [index, more] = node.childrenForFieldName("subscript");
    if (index === undefined || more !== undefined) return unknown("it is computed");
    const key = this.fold(module, index, depth + 1);
    if (this.#isOutside(module, target, "os.environ")) {
      return key.kind === "string"
        ? { kind: "environment", name: key.value, fallback: undefined, node, module }
        : unknown("the variable's name is computed");
    }
    const container = this.fold(module, target, depth + 1);
    if (container.kind === "unknown") return container;
    if (container.kind === "list" && key.kind === "number") {
      return container.items.at(key.value) ?? unknown("the index is outside the list");
    }
    if (container.kind === "dict" && key.kind === "string") {
      const entry = container.entries.findLast(([name]) => name.kind === "string" && name.value === key.value);
      return entry?.[1] ?? unknown(`the dict has no key ${JSON.stringify(key.value)}`);
    }
    return unknown("it is computed");
  }

  #call(module: PythonModule, node: Node, depth: number): Value {
    const called = node.childForFieldName("function")!;
    const args = node.childForFieldName("arguments");
    const given = args === null ? [] : parts(args);
    const positional = given.filter((part) => part.type !== "keyword_argument");
    if (["os.environ.get", "os.getenv"].some((name) => this.#isOutside(module, called, name))) {
      const name = positional[0] === undefined ? undefined : this.fold(module, positional[0], depth + 1);
      const fallback = positional[1] === undefined ? undefined : this.fold(module, positional[1], depth + 1);
      if (name?.kind === "string") return { kind: "environment", name: name.value, fallback, node, module };
    }
    const meaning = this.#names.meaningOf(module, called);
    if (meaning.kind === "svc" && meaning.path.join(".") === "Secret") {
      const argument = given.length === 1 ? (given[0]!.childForFieldName("value") ?? given[0]!) : undefined;
      const name = argument === undefined ? undefined : this.fold(module, argument, depth + 1);
      if (name?.kind === "string") return { kind: "secret", name: name.value, node, module };
      return { kind: "unknown", why: 'Secret takes one text, as in Secret("NAME")', node, module };
    }
    const builtin = called.type === "identifier" ? textOf(module, called) : "";
    if ((builtin === "list" || builtin === "tuple") && given.length === 1 && positional.length === 1) {
      const value = this.fold(module, positional[0]!, depth + 1);
      if (value.kind === "list") return { ...value, tuple: builtin === "tuple", node, module };
    }
    if (builtin === "dict" && positional.length === 0) {
      const entries = given.map((part): [Value, Value] => {
        const name = part.childForFieldName("name")!;
        return [
          { kind: "string", value: textOf(module, name), node: name, module },
          this.fold(module, part.childForFieldName("value")!, depth + 1),
        ];
      });
      return { kind: "dict", entries, node, module };
    }
    return {
      kind: "unknown",
      why: `it is the result of a call of ${textOf(module, called).slice(0, 60)}()`,
      node,
      module,
    };
  }

  #isOutside(module: PythonModule, node: Node, name: string): boolean {
    const meaning = this.#names.meaningOf(module, node);
    return meaning.kind === "outside" && meaning.name === name;
  }
}

const WHY: Record<string, string> = {
  conditional_expression: "it depends on a condition",
  list_comprehension: "it is a comprehension",
  dictionary_comprehension: "it is a comprehension",
  set_comprehension: "it is a comprehension",
  generator_expression: "it is a comprehension",
  lambda: "it is a lambda",
  await: "it is awaited",
  set: "a set has no order",
};

function number(module: PythonModule, node: Node, text: string, float: boolean): Value | undefined {
  const value = Number(text.replaceAll("_", ""));
  return Number.isNaN(value) ? undefined : { kind: "number", value, float, node, module };
}

function whyNot(value: Value, otherwise: string): string {
  return value.kind === "unknown" ? value.why : otherwise;
}

type Result =
  | Pick<Extract<Value, { kind: "string" }>, "kind" | "value">
  | Pick<Extract<Value, { kind: "number" }>, "kind" | "value" | "float">
  | Pick<Extract<Value, { kind: "list" }>, "kind" | "items" | "tuple">
  | Pick<Extract<Value, { kind: "dict" }>, "kind" | "entries">
  | Pick<Extract<Value, { kind: "unknown" }>, "kind" | "why">;

function operate(left: Value, operator: string, right: Value): Result {
  if (left.kind === "unknown") return { kind: "unknown", why: left.why };
  if (right.kind === "unknown") return { kind: "unknown", why: right.why };
  if (left.kind === "number" && right.kind === "number") return calculate(left, operator, right);
  if (operator === "+") {
    if (left.kind === "string" && right.kind === "string") return { kind: "string", value: left.value + right.value };
    if (left.kind === "list" && right.kind === "list" && left.tuple === right.tuple) {
      return { kind: "list", items: [...left.items, ...right.items], tuple: left.tuple };
    }
  }
  if (operator === "|" && left.kind === "dict" && right.kind === "dict") {
    return { kind: "dict", entries: [...left.entries, ...right.entries] };
  }
  if (operator === "*" && right.kind === "number" && Number.isInteger(right.value)) {
    const times = Math.max(0, right.value);
    if (left.kind === "string" && times * left.value.length <= REPEAT_MAX) {
      return { kind: "string", value: left.value.repeat(times) };
    }
    if (left.kind === "list" && times * left.items.length <= REPEAT_MAX) {
      return { kind: "list", items: Array.from({ length: times }, () => left.items).flat(), tuple: left.tuple };
    }
  }
  return { kind: "unknown", why: "it is computed" };
}

function calculate(left: Value & { kind: "number" }, operator: string, right: Value & { kind: "number" }): Result {
  const results: Record<string, () => number> = {
    "+": () => left.value + right.value,
    "-": () => left.value - right.value,
    "*": () => left.value * right.value,
    "/": () => left.value / right.value,
    "//": () => Math.floor(left.value / right.value),
    "%": () => left.value - right.value * Math.floor(left.value / right.value),
    "**": () => left.value ** right.value,
  };
  const value = results[operator]?.();
  if (value === undefined || !Number.isFinite(value)) return { kind: "unknown", why: "it is computed" };
  return { kind: "number", value, float: left.float || right.float || operator === "/" || !Number.isInteger(value) };
}
