/** Finds every Endpoint(...) of a module and what is decorated with it; says nothing about settings yet. */
import type { Node } from "web-tree-sitter";
import { nearest } from "../domain/names.ts";
import type { Diagnostic } from "./build-result.ts";
import type { Meaning, NamesInScope } from "./names-in-scope.ts";
import { type PythonModule, parts, placeOf, textOf } from "./python-module.ts";

/** One Endpoint(...) call; `key` is the same wherever the object is seen. */
export interface EndpointObject {
  readonly key: string;
  readonly module: PythonModule;
  readonly call: Node;
}

/**
 * One decorator: `@Endpoint(...)`, `@api` (queue-based), `@api.get("/x")` or `@api.asgi`; or a call `api.asgi(app)`,
 * where the definition is the call's argument.
 */
export interface EndpointUse {
  readonly object: EndpointObject;
  readonly module: PythonModule;
  readonly decorator: Node;
  readonly definition: Node;
  readonly route:
    | { readonly method: string /** "/" for a whole application. */; readonly path: Node | "/" }
    | undefined;
}

export interface FoundEndpoints {
  readonly objects: EndpointObject[];
  readonly uses: EndpointUse[];
  readonly diagnostics: Diagnostic[];
}

/** The route of a whole ASGI application: what no other route answers. */
export const APPLICATION_METHOD = "ANY";

export const ROUTE_METHODS = ["get", "post", "put", "patch", "delete", "head", "options", "websocket"] as const;

export function findEndpoints(module: PythonModule, names: NamesInScope): FoundEndpoints {
  const found: FoundEndpoints = { objects: [], uses: [], diagnostics: [] };
  const seen = new Set<number>();
  for (const definition of module.root.descendantsOfType("decorated_definition")) {
    const uses = parts(definition).flatMap((part) =>
      part.type === "decorator" ? (useOf(module, names, part, definition, found.diagnostics) ?? []) : [],
    );
    for (const use of uses) {
      if (use.object.module === module) seen.add(use.object.call.id);
      if (isTopLevel(definition)) found.uses.push(use);
      else found.diagnostics.push(nested(module, use.decorator));
    }
  }
  for (const use of applications(module, names)) {
    if (use.object.module === module) seen.add(use.object.call.id);
    found.uses.push(use);
  }
  for (const binding of [...names.scopeOf(module).bindings.values()].flat()) {
    const object = binding.kind === "value" ? objectOf(names.meaningOf(module, binding.value), names) : undefined;
    if (object === undefined || object.module !== module) continue;
    found.objects.push(object);
    seen.add(object.call.id);
  }
  if (module.text.includes("Endpoint")) found.diagnostics.push(...strayCalls(module, names, seen));
  return found;
}

function useOf(
  module: PythonModule,
  names: NamesInScope,
  decorator: Node,
  decorated: Node,
  diagnostics: Diagnostic[],
): EndpointUse | undefined {
  const expression = parts(decorator)[0];
  const definition = decorated.childForFieldName("definition");
  if (expression === undefined || definition === null) return undefined;
  const direct = objectOf(names.meaningOf(module, expression), names);
  if (direct !== undefined) return { object: direct, module, decorator, definition, route: undefined };
  if (isEndpointClass(names.meaningOf(module, expression))) {
    diagnostics.push(bareDecorator(module, expression));
    return undefined;
  }
  const called = expression.type === "call" ? expression.childForFieldName("function")! : expression;
  if (called.type !== "attribute") return undefined;
  const object = objectOf(names.meaningOf(module, called.childForFieldName("object")!), names);
  if (object === undefined) return undefined;
  const attribute = called.childForFieldName("attribute")!;
  const route = routeOf(module, expression, attribute, diagnostics);
  return route === undefined ? undefined : { object, module, decorator, definition, route };
}

/** Calls `<endpoint>.asgi(app)` at the top level. */
function applications(module: PythonModule, names: NamesInScope): EndpointUse[] {
  if (!/\.\s*asgi\b/.test(module.text)) return [];
  return module.root.descendantsOfType("call").flatMap((call): EndpointUse[] => {
    const called = call.childForFieldName("function")!;
    if (called.type !== "attribute" || call.parent?.type === "decorator" || !isTopLevel(call)) return [];
    if (textOf(module, called.childForFieldName("attribute")!) !== "asgi") return [];
    const object = objectOf(names.meaningOf(module, called.childForFieldName("object")!), names);
    const definition = parts(call.childForFieldName("arguments")!)[0];
    if (object === undefined || definition === undefined) return [];
    return [{ object, module, decorator: call, definition, route: { method: APPLICATION_METHOD, path: "/" } }];
  });
}

function routeOf(
  module: PythonModule,
  expression: Node,
  attribute: Node,
  diagnostics: Diagnostic[],
): EndpointUse["route"] {
  const name = textOf(module, attribute);
  if (name === "asgi") return { method: APPLICATION_METHOD, path: "/" };
  const given = expression.type === "call" ? parts(expression.childForFieldName("arguments")!) : [];
  const argument = (position: number, keyword: string) =>
    given.filter((part) => part.type !== "keyword_argument")[position] ??
    given
      .find((part) => part.type === "keyword_argument" && textOf(module, part.childForFieldName("name")!) === keyword)
      ?.childForFieldName("value") ??
    undefined;
  const isRoute = name === "route";
  if (!isRoute && !(ROUTE_METHODS as readonly string[]).includes(name)) {
    const near = nearest(name, [...ROUTE_METHODS, "route"], 1)[0];
    diagnostics.push({
      severity: "error",
      rule: "unknown-method",
      message: `An endpoint has no method .${name}().`,
      help:
        near === undefined ? `Use one of ${ROUTE_METHODS.map((m) => `.${m}`).join(", ")}.` : `Did you mean .${near}?`,
      ...placeOf(module, attribute),
    });
    return undefined;
  }
  const path = argument(isRoute ? 1 : 0, "path");
  const methodNode = isRoute ? argument(0, "method") : undefined;
  const method = isRoute ? /^['"](\w+)['"]$/.exec(methodNode ? textOf(module, methodNode) : "")?.[1] : name;
  if (path === undefined || method === undefined) {
    diagnostics.push({
      severity: "error",
      rule: "route-path",
      message: `.${name}() needs ${isRoute ? "a method and a path, both as plain text" : "the path of the route"}.`,
      help: isRoute ? 'Write it as .route("GET", "/health").' : `Write it as .${name}("/path").`,
      ...placeOf(module, expression),
    });
    return undefined;
  }
  return { method: method.toUpperCase(), path };
}

function isEndpointClass(meaning: Meaning): boolean {
  return meaning.kind === "svc" && meaning.path.length === 1 && meaning.path[0] === "Endpoint";
}

/** The Endpoint object an expression stands for, when it is one. */
function objectOf(meaning: Meaning, names: NamesInScope): EndpointObject | undefined {
  if (meaning.kind !== "expression" || meaning.node.type !== "call") return undefined;
  const { module, node } = meaning;
  if (!isEndpointClass(names.meaningOf(module, node.childForFieldName("function")!))) return undefined;
  if (isClient(module, node)) return undefined;
  return { key: `${module.path}:${node.startIndex}`, module, call: node };
}

/** `Endpoint(id="…")` calls an endpoint and declares none. */
function isClient(module: PythonModule, call: Node): boolean {
  return parts(call.childForFieldName("arguments")!).some(
    (part) => part.type === "keyword_argument" && textOf(module, part.childForFieldName("name")!) === "id",
  );
}

/** Runs when the module is imported, so that importing it declares the endpoint. */
function isTopLevel(node: Node): boolean {
  for (let parent = node.parent; parent !== null; parent = parent.parent) {
    if (/^(function_definition|class_definition|lambda)$/.test(parent.type)) return false;
  }
  return true;
}

function strayCalls(module: PythonModule, names: NamesInScope, seen: ReadonlySet<number>): Diagnostic[] {
  return module.root.descendantsOfType("call").flatMap((call): Diagnostic[] => {
    if (seen.has(call.id)) return [];
    const called = call.childForFieldName("function")!;
    if (called.type !== "identifier" && called.type !== "attribute") return [];
    if (!isEndpointClass(names.meaningOf(module, called))) return [];
    if (call.parent?.type === "decorator" || isClient(module, call)) return [];
    return [
      {
        severity: "warning",
        rule: "unused-endpoint",
        message: "This Endpoint(...) is neither a decorator nor the value of a top-level name, so it is not deployed.",
        help: 'Write @Endpoint(...) above a function, or api = Endpoint(...) at the top level and @api.get("/path") above its routes.',
        ...placeOf(module, call),
      },
    ];
  });
}

function nested(module: PythonModule, decorator: Node): Diagnostic {
  return {
    severity: "error",
    rule: "nested-endpoint",
    message: "An endpoint's function must stand at the top level of its file, because workers import it by name.",
    help: "Move it out of the function or class around it.",
    ...placeOf(module, decorator),
  };
}

function bareDecorator(module: PythonModule, expression: Node): Diagnostic {
  return {
    severity: "error",
    rule: "missing-name",
    message: "@Endpoint needs its settings, at least a name.",
    help: 'Write @Endpoint(name="my-endpoint").',
    ...placeOf(module, expression),
  };
}
