/** Which dependency layers a project needs: one for each distinct set of requirements and Python version. */
import { createHash } from "node:crypto";
import { BASE_PACKAGES } from "../domain/base-requirement.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { normalizedName, parseRequirement, type Requirement } from "./requirement.ts";

/** Raised when the layout of a layer changes, so that older ones are built anew. */
const LAYOUT = 1;

export const PLATFORM = "manylinux_2_28_x86_64";

export interface DependencySet {
  /** Names the layer's folder: deps/<key>/. */
  readonly key: string;
  readonly pythonVersion: string;
  /** To install, sorted. */
  readonly requirements: readonly Requirement[];
  /** Declared, but the base image has them; they still steer which versions of the others fit. */
  readonly base: readonly Requirement[];
  /** Names that are never installed: the base packages and what --exclude lists. */
  readonly leaveOut: ReadonlySet<string>;
  readonly noDeps: boolean;
  readonly endpoints: readonly EndpointDeclaration[];
}

export interface PlanOptions {
  readonly noDeps: boolean;
  readonly exclude: readonly string[];
  /** Version of the local interpreter, for endpoints that declare none. */
  readonly localVersion: string | undefined;
  /** Whether bytecode for that local version goes into layers. */
  readonly bytecode: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Endpoints whose requirements are all left out or none get no set. */
export function planDependencies(endpoints: readonly EndpointDeclaration[], options: PlanOptions): DependencySet[] {
  const excluded = new Set(options.exclude.map(normalizedName));
  const leaveOut = new Set([...BASE_PACKAGES, ...excluded]);
  const sets = new Map<string, DependencySet>();
  for (const endpoint of endpoints) {
    const declared = endpoint.dependencies.flatMap((text) => parseRequirement(text) ?? []);
    const requirements = sorted(declared.filter(({ name }) => !leaveOut.has(name)));
    if (requirements.length === 0) continue;
    const base = sorted(declared.filter(({ name }) => isBase(name) && !excluded.has(name)));
    const pythonVersion = endpoint.pythonVersion ?? options.localVersion!;
    const identity = JSON.stringify([
      LAYOUT,
      PLATFORM,
      pythonVersion,
      requirements.map(({ text }) => text),
      base.map(({ text }) => text),
      options.noDeps,
      [...excluded].sort(),
      options.bytecode && pythonVersion === options.localVersion,
      indexSettings(options.env),
    ]);
    const key = createHash("sha256").update(identity).digest("hex").slice(0, 16);
    const known = sets.get(key);
    if (known === undefined) {
      sets.set(key, {
        key,
        pythonVersion,
        requirements,
        base,
        leaveOut,
        noDeps: options.noDeps,
        endpoints: [endpoint],
      });
    } else {
      sets.set(key, { ...known, endpoints: [...known.endpoints, endpoint] });
    }
  }
  return [...sets.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
}

export function isBase(name: string): boolean {
  return (BASE_PACKAGES as readonly string[]).includes(name);
}

function sorted(requirements: readonly Requirement[]): Requirement[] {
  const byText = new Map(requirements.map((requirement) => [requirement.text, requirement]));
  return [...byText.values()].sort((a, b) => (a.text < b.text ? -1 : 1));
}

const INDEX_VARIABLE =
  /^(PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|PRE|CONSTRAINT)|UV_(INDEX|DEFAULT_INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|PRERELEASE|CONSTRAINT))$/;

/** Another index may give other packages. Credentials are left out: a new token is not a new index. */
function indexSettings(env: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(env)
    .filter(([name, value]) => INDEX_VARIABLE.test(name) && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${value!.replace(/\/\/[^/@\s]*@/g, "//")}`)
    .sort();
}
