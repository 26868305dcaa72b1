import { markerHolds } from "./marker.ts";
import { normalizedName, parseRequirement, type Requirement } from "./requirement.ts";

/** A resolved or installed distribution: its normalised name and its Requires-Dist lines. */
export interface Distribution {
  readonly name: string;
  readonly version: string;
  readonly requires: readonly string[];
}

export interface Closure {
  /** Names that are reached from the roots without passing through what is left out. */
  readonly names: ReadonlySet<string>;
  /** What was met and left out: name → the version specifiers that were asked for. */
  readonly leftOut: ReadonlyMap<string, readonly string[]>;
}

/** Which distributions are needed once some are left out: what only those need goes with them. */
export function dependencyClosure(
  roots: readonly Requirement[],
  distributions: readonly Distribution[],
  leaveOut: ReadonlySet<string>,
  environment: Readonly<Record<string, string>>,
): Closure {
  const byName = new Map(distributions.map((each) => [each.name, each]));
  const extrasOf = new Map<string, Set<string>>();
  const leftOut = new Map<string, string[]>();
  const waiting: Requirement[] = [...roots];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (leaveOut.has(next.name)) {
      const specifiers = leftOut.get(next.name) ?? [];
      if (next.specifier !== "" && !specifiers.includes(next.specifier)) specifiers.push(next.specifier);
      leftOut.set(next.name, specifiers.sort());
      continue;
    }
    const known = extrasOf.get(next.name);
    const extras = new Set([...(known ?? []), ...next.extras]);
    if (known !== undefined && known.size === extras.size) continue;
    extrasOf.set(next.name, extras);
    for (const line of byName.get(next.name)?.requires ?? []) {
      const requirement = parseRequirement(line);
      if (requirement === undefined) continue;
      // Extras are compared by their normalised names, which is how they were requested.
      const marker = requirement.marker.replace(
        /(extra\s*==\s*)["']([^"']*)["']/g,
        (_, head, extra) => `${head}"${normalizedName(extra)}"`,
      );
      if (markerHolds(marker, environment, [...extras])) waiting.push(requirement);
    }
  }
  return { names: new Set(extrasOf.keys()), leftOut };
}
