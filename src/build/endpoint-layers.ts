import type { DependencyLayer } from "./dependency-layer.ts";
import { type DependencySet, isBase } from "./dependency-plan.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import type { Interpreter } from "./interpreter.ts";
import type { EndpointLayers } from "./manifest.ts";
import { markerHolds, targetEnvironment } from "./marker.ts";
import { normalizedName, parseRequirement } from "./requirement.ts";

/** What each endpoint gets from the layers, by its name. */
export async function endpointLayers(
  endpoints: readonly EndpointDeclaration[],
  dependencies: readonly { set: DependencySet; layer: DependencyLayer }[],
  exclude: readonly string[],
  python: () => Promise<Interpreter>,
): Promise<Map<string, EndpointLayers>> {
  const excluded = new Set(exclude.map(normalizedName));
  const layers = new Map<string, EndpointLayers>();
  for (const endpoint of endpoints) {
    const own = dependencies.find(({ set }) => set.endpoints.some(({ name }) => name === endpoint.name))?.layer;
    const declared = endpoint.dependencies.filter((text) => {
      const name = parseRequirement(text)?.name;
      return name !== undefined && isBase(name) && !excluded.has(name);
    });
    const transitive = (own?.base ?? []).filter((text) => !excluded.has(parseRequirement(text)!.name));
    const pythonVersion = endpoint.pythonVersion ?? (await python()).version;
    layers.set(endpoint.name, {
      pythonVersion,
      baseDependencies: mergeBase(
        declared.filter((text) => applies(text, pythonVersion)),
        transitive,
      ),
      dependencyLayer: own?.digest ?? null,
    });
  }
  return layers;
}

/** Declared versions win; a declared name without one takes what the installed packages ask for. */
function mergeBase(declared: readonly string[], transitive: readonly string[]): string[] {
  const byName = new Map(transitive.map((text) => [parseRequirement(text)!.name, text]));
  for (const text of declared) {
    const { name, specifier, extras } = parseRequirement(text)!;
    const plain = `${name}${extras.length === 0 ? "" : `[${extras.join(",")}]`}${specifier}`;
    if (specifier !== "" || extras.length > 0 || !byName.has(name)) byName.set(name, plain);
  }
  return [...byName.values()].sort();
}

function applies(text: string, pythonVersion: string): boolean {
  return markerHolds(parseRequirement(text)!.marker, targetEnvironment(pythonVersion));
}

/** requirements.txt of the artifact: what each dependency layer holds, exactly. */
export function requirementsText(dependencies: readonly { set: DependencySet; layer: DependencyLayer }[]): string {
  return dependencies
    .map(({ set, layer }) => {
      const named = set.endpoints.map(({ name }) => name).join(", ");
      return `# deps/${set.key}: Python ${set.pythonVersion}, for ${named}\n${layer.lock.map((line) => `${line}\n`).join("")}`;
    })
    .join("\n");
}
