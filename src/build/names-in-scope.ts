/**
 * What a name or a dotted expression of the project stands for: something of the svc package, a module, an
 * expression to fold, a definition, something outside. Follows imports through the project's own modules.
 */
import type { Node } from "web-tree-sitter";
import type { ModuleGraph } from "./module-graph.ts";
import { type Binding, type ModuleScope, readScope } from "./module-scope.ts";
import { type PythonModule, textOf } from "./python-module.ts";

export type Meaning =
  /** `path` below the package: [] is the package, ["Endpoint"], ["GpuType", "NVIDIA_L4"]. */
  | { readonly kind: "svc"; readonly path: readonly string[] }
  | { readonly kind: "module"; readonly name: string }
  | { readonly kind: "expression"; readonly module: PythonModule; readonly node: Node }
  /** `name += value`, after what the name was before. */
  | { readonly kind: "added"; readonly before: Meaning; readonly module: PythonModule; readonly node: Node }
  | { readonly kind: "definition"; readonly module: PythonModule; readonly node: Node }
  /** Dotted name outside the project: "os.environ". */
  | { readonly kind: "outside"; readonly name: string }
  | { readonly kind: "unknown"; readonly why: string };

const DEPTH_MAX = 40;

export class NamesInScope {
  readonly #graph: ModuleGraph;
  readonly #scopes = new Map<PythonModule, ModuleScope>();

  constructor(graph: ModuleGraph) {
    this.#graph = graph;
  }

  scopeOf(module: PythonModule): ModuleScope {
    const known = this.#scopes.get(module);
    if (known !== undefined) return known;
    const scope = readScope(module);
    this.#scopes.set(module, scope);
    return scope;
  }

  /** What `node` means where it stands, at `before` in its file. */
  meaningOf(module: PythonModule, node: Node, before = node.startIndex, depth = 0): Meaning {
    if (depth > DEPTH_MAX) return { kind: "unknown", why: "is defined by itself" };
    if (node.type === "identifier") return this.lookup(module, textOf(module, node), before, depth + 1);
    if (node.type === "parenthesized_expression") {
      const inner = node.namedChildren.find((child) => child.type !== "comment");
      return inner === undefined
        ? { kind: "unknown", why: "is empty" }
        : this.meaningOf(module, inner, before, depth + 1);
    }
    if (node.type !== "attribute") return { kind: "expression", module, node };
    const object = this.meaningOf(module, node.childForFieldName("object")!, before, depth + 1);
    return this.#member(object, textOf(module, node.childForFieldName("attribute")!), module, node, depth + 1);
  }

  lookup(module: PythonModule, name: string, before: number, depth = 0): Meaning {
    if (depth > DEPTH_MAX) return { kind: "unknown", why: "is defined by itself" };
    const scope = this.scopeOf(module);
    const bindings = (scope.bindings.get(name) ?? []).filter((binding) => binding.at <= before);
    if (bindings.length > 0) return this.#bound(module, name, bindings, depth);
    for (const star of scope.stars.toReversed()) {
      if (star === "svc") {
        if (["Endpoint", "GpuType", "GpuGroup", "Secret"].includes(name)) return { kind: "svc", path: [name] };
        continue;
      }
      const source = this.#graph.byName(star);
      if (source === undefined || name.startsWith("_")) continue;
      const found = this.lookup(source, name, source.text.length, depth + 1);
      if (found.kind !== "unknown") return found;
    }
    return { kind: "unknown", why: `${name} is not defined at the top level of ${module.path}` };
  }

  #bound(module: PythonModule, name: string, bindings: readonly Binding[], depth: number): Meaning {
    const last = bindings.at(-1)!;
    if (last.kind === "opaque") return { kind: "unknown", why: `${name} ${last.why}` };
    if (last.conditional && (last.kind === "value" || last.kind === "added")) {
      // try: import x / except ImportError: x = None
      const imported = bindings.filter((binding) => binding.kind === "module" || binding.kind === "member");
      if (imported.length > 0) return this.#bound(module, name, imported, depth);
      return { kind: "unknown", why: `${name} is assigned only under a condition` };
    }
    switch (last.kind) {
      case "module":
        return this.#module(last.module);
      case "member":
        return this.#member(this.#module(last.module), last.member, module, last.node, depth);
      case "definition":
        return { kind: "definition", module, node: last.node };
      case "value":
        return this.meaningOf(module, last.value, last.value.startIndex, depth + 1);
      case "added": {
        const earlier = bindings.slice(0, -1);
        if (earlier.length === 0) return { kind: "unknown", why: `${name} has no first value` };
        return { kind: "added", before: this.#bound(module, name, earlier, depth + 1), module, node: last.value };
      }
    }
  }

  #module(name: string): Meaning {
    if (this.#graph.has(name)) return { kind: "module", name };
    if (name === "svc") return { kind: "svc", path: [] };
    if (name.startsWith("svc.")) return { kind: "svc", path: [] };
    return { kind: "outside", name };
  }

  #member(object: Meaning, member: string, module: PythonModule, node: Node, depth: number): Meaning {
    switch (object.kind) {
      case "svc":
        return { kind: "svc", path: [...object.path, member] };
      case "outside":
        return { kind: "outside", name: `${object.name}.${member}` };
      case "module": {
        const source = this.#graph.byName(object.name);
        const child = `${object.name}.${member}`;
        const found = source === undefined ? undefined : this.lookup(source, member, source.text.length + 1, depth + 1);
        if (found !== undefined && found.kind !== "unknown") return found;
        if (this.#graph.has(child)) return { kind: "module", name: child };
        return found ?? { kind: "unknown", why: `${child} is not a module of the project` };
      }
      case "definition":
        return this.#classMember(object, member, depth);
      case "expression":
        return { kind: "expression", module, node };
      default:
        return object;
    }
  }

  /** A constant in the body of a class of the project: `Config.PACKAGES`. */
  #classMember(object: Meaning & { kind: "definition" }, member: string, depth: number): Meaning {
    const { module, node } = object;
    const body = node.type === "class_definition" ? node.childForFieldName("body") : null;
    for (const statement of body?.namedChildren.toReversed() ?? []) {
      const assignment = statement.type === "expression_statement" ? statement.namedChild(0) : null;
      if (assignment?.type !== "assignment") continue;
      const left = assignment.childForFieldName("left");
      const right = assignment.childForFieldName("right");
      if (left && right && textOf(module, left) === member) {
        return this.meaningOf(module, right, node.startIndex, depth + 1);
      }
    }
    return { kind: "unknown", why: `${member} is not a constant of the class` };
  }
}
