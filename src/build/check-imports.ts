/**
 * Imports that will fail on a worker: a package nobody listed, or one that is imported at the top of a file that
 * other endpoints and this machine import too. These are guesses about names, so they are warnings.
 */
import type { At, Facts, ImportSite } from "./facts.ts";
import { distributionsOf, isStandardLibrary, providesModule } from "./import-names.ts";
import { parseRequirement } from "./requirement.ts";
import type { Finding, Report, Sources } from "./sources.ts";

/** An endpoint's function with what the check needs to know of its endpoint. */
export interface ImportingFunction {
  readonly endpoint: string;
  readonly dependencies: readonly string[];
  readonly file: string;
  /** Inside the function. */
  readonly imports: readonly ImportSite[];
}

export function checkImports(
  functions: readonly ImportingFunction[],
  { modules }: Facts,
  sources: Sources,
  report: Report,
): void {
  const isOutside = (module: string) => {
    const top = module.split(".")[0]!;
    return top !== "svc" && top !== "" && !isStandardLibrary(top) && !sources.has(top);
  };
  for (const file of new Set(functions.map((each) => each.file))) {
    const here = functions.filter((each) => each.file === file);
    // Grows while it is gone through: what a file imports, and what that imports.
    const together = new Set([file]);
    for (const each of together) {
      const { imports, below } = modules[each]!;
      for (const next of below) together.add(next);
      for (const site of imports) if (isOutside(site.module)) checkTop(each, site, here, report);
    }
    if (!file.includes("/")) for (const at of modules[file]!.relative) report(relative(file, at));
  }
  for (const each of functions) {
    for (const site of each.imports) if (isOutside(site.module)) checkInside(each, site, report);
  }
}

function checkTop(
  file: string,
  { module, at }: ImportSite,
  functions: readonly ImportingFunction[],
  report: Report,
): void {
  const top = module.split(".")[0]!;
  const without = [
    ...new Set(functions.filter((each) => !isListed(each.dependencies, top)).map((each) => each.endpoint)),
  ];
  if (without.length > 0) {
    report(missing(top, without, at));
    return;
  }
  report({
    severity: "warning",
    rule: "top-level-import",
    message: `${top} is imported at the top of ${file}, so the file cannot be imported where ${top} is not installed.`,
    help: `Move "import ${top}" into the function that uses it.`,
    at,
  });
}

function checkInside({ endpoint, dependencies }: ImportingFunction, { module, at }: ImportSite, report: Report): void {
  const top = module.split(".")[0]!;
  if (isListed(dependencies, top)) return;
  report(missing(top, [endpoint], at));
}

function missing(top: string, endpoints: readonly string[], at: At): Finding {
  const named = endpoints.map((name) => `"${name}"`).join(", ");
  return {
    severity: "warning",
    rule: "missing-dependency",
    message: `${top} is imported here, but endpoint ${named} does not list it.`,
    help: `Add "${distributionsOf(top)[0]}" to dependencies=, unless another dependency brings it.`,
    at,
  };
}

function isListed(dependencies: readonly string[], top: string): boolean {
  return dependencies.some((text) => {
    const requirement = parseRequirement(text);
    return requirement !== undefined && providesModule(requirement.name, top);
  });
}

/** A file at the project's root is a module without a package: `from .x import y` raises ImportError in it. */
function relative(file: string, at: At): Finding {
  return {
    severity: "error",
    rule: "relative-import",
    message: `${file} stands at the project's root, where a relative import does not work.`,
    help: "Write the import without the leading dot.",
    at,
  };
}
