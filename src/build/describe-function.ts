import type { Node } from "web-tree-sitter";
import type { ManifestFunction, ManifestParameter } from "../domain/manifest.ts";
import { type PythonModule, parts, textOf } from "./python-module.ts";
import { cleanDoc, foldString } from "./python-string.ts";

/** What the manifest says about a decorated function or class. */
export function describeFunction(module: PythonModule, definition: Node): ManifestFunction {
  if (definition.type !== "function_definition" && definition.type !== "class_definition") {
    return describeApplication(module, definition);
  }
  const name = textOf(module, definition.childForFieldName("name")!);
  const body = definition.childForFieldName("body")!;
  const common = { name, module: module.name, doc: docOf(module, body) };
  if (definition.type === "function_definition") {
    return {
      ...common,
      kind: "function",
      async: isAsync(definition),
      generator: isGenerator(body),
      parameters: parametersOf(module, definition),
      methods: [],
    };
  }
  const methods = publicMethods(module, body);
  const [only] = methods;
  return {
    ...common,
    kind: "class",
    async: methods.some(({ node }) => isAsync(node)),
    generator: methods.some(({ node }) => isGenerator(node.childForFieldName("body")!)),
    parameters: methods.length === 1 ? parametersOf(module, only!.node).slice(only!.bound ? 1 : 0) : [],
    methods: methods.map((method) => method.name),
  };
}

/** The argument of `.asgi(app)`. Python code cannot tell from outside what an application takes. */
function describeApplication(module: PythonModule, argument: Node): ManifestFunction {
  const name = argument.type === "identifier" ? textOf(module, argument) : "asgi";
  const { name: moduleName } = module;
  return {
    name,
    module: moduleName,
    kind: "function",
    async: true,
    generator: false,
    doc: "",
    parameters: [],
    methods: [],
  };
}

interface Method {
  readonly name: string;
  readonly node: Node;
  /** Its first parameter is self or cls. */
  readonly bound: boolean;
}

/** Methods a job may name; a class with one only needs no name. */
function publicMethods(module: PythonModule, body: Node): Method[] {
  const methods = parts(body).flatMap((part): Method[] => {
    const decorators = part.type === "decorated_definition" ? parts(part).filter((p) => p.type === "decorator") : [];
    const node = part.type === "decorated_definition" ? part.childForFieldName("definition") : part;
    if (node?.type !== "function_definition") return [];
    const marks = decorators.map((decorator) => textOf(module, decorator).slice(1).trim());
    if (marks.some((mark) => /property\b|\.(setter|deleter|getter)$|^overload$|\.overload$/.test(mark))) return [];
    return [{ name: textOf(module, node.childForFieldName("name")!), node, bound: !marks.includes("staticmethod") }];
  });
  return methods.filter(({ name }) => !name.startsWith("_"));
}

export function isAsync(definition: Node): boolean {
  return definition.child(0)?.type === "async";
}

/** Contains a yield of its own, not one of a function inside it. */
function isGenerator(node: Node): boolean {
  return node.namedChildren.some((child) => {
    if (child.type === "yield") return true;
    if (/^(function_definition|class_definition|lambda)$/.test(child.type)) return false;
    return isGenerator(child);
  });
}

function docOf(module: PythonModule, body: Node): string {
  const first = parts(body)[0];
  const literal = first?.type === "expression_statement" ? parts(first)[0] : undefined;
  if (literal === undefined || !/^(string|concatenated_string)$/.test(literal.type)) return "";
  const folded = foldString(module, literal, (node) => ({ kind: "unknown", why: "", node, module }));
  return "value" in folded ? cleanDoc(folded.value) : "";
}

function parametersOf(module: PythonModule, definition: Node): ManifestParameter[] {
  const list = definition.childForFieldName("parameters");
  return list === null ? [] : parts(list).flatMap((parameter) => parameterOf(module, parameter) ?? []);
}

function parameterOf(module: PythonModule, node: Node): ManifestParameter | undefined {
  const field = (name: string) => {
    const found = node.childForFieldName(name);
    return found === null ? undefined : textOf(module, found);
  };
  switch (node.type) {
    case "identifier":
    case "list_splat_pattern":
    case "dictionary_splat_pattern":
      return { name: textOf(module, node), annotation: "", default: null };
    case "typed_parameter":
      return { name: textOf(module, node.namedChild(0)!), annotation: field("type") ?? "", default: null };
    case "default_parameter":
    case "typed_default_parameter":
      return { name: field("name") ?? "", annotation: field("type") ?? "", default: field("value") ?? null };
    default:
      return undefined;
  }
}
