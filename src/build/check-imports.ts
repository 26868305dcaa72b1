/**
 * Imports that will fail on a worker: a package nobody listed, or one that is imported at the top of a file that
 * other endpoints and this machine import too. These are guesses about names, so they are warnings.
 */

import type { Node } from "web-tree-sitter";
import { BASE_PACKAGES } from "../domain/manifest.ts";
import type { Diagnostic } from "./build-result.ts";
import { distributionsOf, providesModule } from "./import-names.ts";
import type { ModuleGraph } from "./module-graph.ts";
import { importsOf } from "./module-scope.ts";
import type { NamesInScope } from "./names-in-scope.ts";
import { type PythonModule, placeOf } from "./python-module.ts";
import { parseRequirement } from "./requirement.ts";
import { isStandardLibrary } from "./standard-library.ts";

/** An endpoint's function with what the check needs to know of its endpoint. */
export interface ImportingFunction {
  readonly endpoint: string;
  readonly dependencies: readonly string[];
  readonly module: PythonModule;
  readonly definition: Node;
}

export function checkImports(
  functions: readonly ImportingFunction[],
  graph: ModuleGraph,
  names: NamesInScope,
  report: (diagnostic: Diagnostic) => void,
): void {
  const isOutside = (module: string) => {
    const top = module.split(".")[0]!;
    return top !== "svc" && top !== "" && !isStandardLibrary(top) && !graph.has(top);
  };
  for (const module of new Set(functions.map((each) => each.module))) {
    const here = functions.filter((each) => each.module === module);
    for (const each of importedTogether(module, graph, names)) {
      for (const site of names.scopeOf(each).imports) {
        if (!site.conditional && isOutside(site.module)) checkTop(each, site.module, site.node, here, report);
      }
    }
    if (!module.path.includes("/")) checkRelative(module, report);
  }
  for (const each of functions) {
    const guarded = (node: Node) => node.parent?.parent?.type === "try_statement";
    for (const statement of each.definition.descendantsOfType(["import_statement", "import_from_statement"])) {
      if (guarded(statement)) continue;
      for (const { module } of importsOf(each.module, statement)) {
        if (module !== undefined && isOutside(module)) checkInside(each, module, statement, report);
      }
    }
  }
}

/** The module and the project's modules that importing it imports too. */
function importedTogether(module: PythonModule, graph: ModuleGraph, names: NamesInScope): Set<PythonModule> {
  const together = new Set([module]);
  for (const each of together) {
    for (const { module: name, member, conditional } of names.scopeOf(each).imports) {
      if (conditional) continue;
      const imported = (member === undefined ? undefined : graph.byName(`${name}.${member}`)) ?? graph.byName(name);
      if (imported !== undefined) together.add(imported);
    }
  }
  return together;
}

function checkTop(
  module: PythonModule,
  imported: string,
  node: Node,
  functions: readonly ImportingFunction[],
  report: (diagnostic: Diagnostic) => void,
): void {
  const top = imported.split(".")[0]!;
  const without = [
    ...new Set(functions.filter((each) => !isListed(each.dependencies, top)).map((each) => each.endpoint)),
  ];
  if (without.length > 0) {
    report(missing(top, without, placeOf(module, node)));
    return;
  }
  report({
    severity: "warning",
    rule: "top-level-import",
    message: `${top} is imported at the top of ${module.path}, so the file cannot be imported where ${top} is not installed.`,
    help: `Move "import ${top}" into the function that uses it.`,
    ...placeOf(module, node),
  });
}

function checkInside(
  { endpoint, dependencies, module }: ImportingFunction,
  imported: string,
  node: Node,
  report: (diagnostic: Diagnostic) => void,
): void {
  const top = imported.split(".")[0]!;
  if (isListed(dependencies, top) || (BASE_PACKAGES as readonly string[]).includes(top)) return;
  report(missing(top, [endpoint], placeOf(module, node)));
}

function missing(top: string, endpoints: readonly string[], place: Partial<Diagnostic>): Diagnostic {
  const named = endpoints.map((name) => `"${name}"`).join(", ");
  return {
    severity: "warning",
    rule: "missing-dependency",
    message: `${top} is imported here, but endpoint ${named} does not list it.`,
    help: `Add "${distributionsOf(top)[0]}" to dependencies=, unless another dependency brings it.`,
    ...place,
  };
}

function isListed(dependencies: readonly string[], top: string): boolean {
  return dependencies.some((text) => {
    const requirement = parseRequirement(text);
    return requirement !== undefined && providesModule(requirement.name, top);
  });
}

/** A file at the project's root is a module without a package: `from .x import y` raises ImportError in it. */
function checkRelative(module: PythonModule, report: (diagnostic: Diagnostic) => void): void {
  for (const statement of module.root.descendantsOfType("import_from_statement")) {
    const source = statement.childForFieldName("module_name");
    if (source?.type !== "relative_import") continue;
    report({
      severity: "error",
      rule: "relative-import",
      message: `${module.path} stands at the project's root, where a relative import does not work.`,
      help: "Write the import without the leading dot.",
      ...placeOf(module, source),
    });
  }
}
