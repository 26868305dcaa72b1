/** Requirements as `pip install` takes them (PEP 508), as far as a build needs to understand them. */
import { BASE_PACKAGES } from "../domain/base-requirement.ts";

export interface Requirement {
  /** As written, trimmed. */
  readonly text: string;
  /** Normalised name: "scikit-learn". */
  readonly name: string;
  readonly extras: readonly string[];
  /** ">=1.2,<2", "@ https://…" or "". */
  readonly specifier: string;
  /** What follows ";", or "". */
  readonly marker: string;
}

const REQUIREMENT =
  /^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*(\(?[^;@]*\)?|@\s*[^;\s]+)\s*(?:;\s*(.*))?$/;
const SPECIFIER = /^(\s*(===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*(,|$))*$/;

export function parseRequirement(text: string): Requirement | undefined {
  const match = REQUIREMENT.exec(text);
  if (match === null) return undefined;
  const specifier = (match[3] ?? "").trim().replace(/^\(|\)$/g, "");
  if (!specifier.startsWith("@") && !SPECIFIER.test(specifier)) return undefined;
  return {
    text: text.trim(),
    name: normalizedName(match[1]!),
    extras: (match[2] ?? "").split(",").flatMap((extra) => (extra.trim() === "" ? [] : normalizedName(extra.trim()))),
    specifier,
    marker: (match[4] ?? "").trim(),
  };
}

/** PEP 503: "Scikit_Learn" → "scikit-learn". */
export function normalizedName(name: string): string {
  return name.toLowerCase().replace(/[-_.]+/g, "-");
}

/** By its path alone: that is what an installer goes by. */
function isWheelAddress(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (url?.protocol === "https:" || url?.protocol === "http:") && url.pathname.toLowerCase().endsWith(".whl");
}

/** Why a text of `dependencies=` cannot be installed; undefined when it can be tried. */
export function requirementProblem(text: string): { message: string; help: string } | undefined {
  const shown = JSON.stringify(text);
  if (text.trim() === "") return { message: "A dependency is empty.", help: "Remove it." };
  if (text.trim().startsWith("-")) {
    return {
      message: `${shown} is an option of the installer, not a package.`,
      help: "List the packages by name. Index settings belong into your pip or uv configuration.",
    };
  }
  if (/^(\.{0,2}\/|~|file:|[A-Za-z]:\\)/.test(text.trim()) || /\.(whl|tar\.gz|zip)$/.test(text.trim().split("#")[0]!)) {
    if (!/^\S+\s*@\s*https?:/.test(text)) {
      return {
        message: `${shown} is a local file, which exists only on this machine.`,
        help: "Put the code into the project, or publish the package on an index.",
      };
    }
  }
  const requirement = parseRequirement(text);
  if (requirement === undefined) {
    return {
      message: `${shown} is not a requirement.`,
      help: 'Write a package name with an optional version: "requests>=2.31".',
    };
  }
  if (requirement.specifier.startsWith("@") && !isWheelAddress(requirement.specifier.slice(1).trim())) {
    return {
      message: `${requirement.name} is not given by the address of a wheel: anything else runs its own code to be installed, on this machine.`,
      help: "Give an https:// address that ends in .whl, or publish the package on an index.",
    };
  }
  if (requirement.specifier.startsWith("@") && (BASE_PACKAGES as readonly string[]).includes(requirement.name)) {
    return {
      message: `${requirement.name} comes from the base that workers run on and cannot be given by an address.`,
      help: "Name it with a version, or take an image of your own with image=.",
    };
  }
  if (/^@\s*\S*:\/\/[^/\s]*@/.test(requirement.specifier)) {
    return {
      message: `The address of ${requirement.name} holds a user name or a password, which would be stored in the manifest.`,
      help: "Put the credentials into your pip or uv configuration, or into ~/.netrc.",
    };
  }
  return undefined;
}
