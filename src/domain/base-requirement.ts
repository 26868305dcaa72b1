/**
 * Requirements that the platform installs by itself, outside any worker: packages of the base, by name and version. Nothing
 * else may stand there: an address, a path or an option would be the caller's word to an installer on the platform's machine.
 */
import { REQUIREMENT_MAX_CHARS } from "./limits.ts";

/** Packages that never enter an artifact because the base images (or base layers) have them. */
export const BASE_PACKAGES = ["torch", "torchvision", "torchaudio", "numpy", "triton"] as const;

/** Those that bring libraries for GPUs along: above 500 MB, and most of it also where there is no GPU. */
const LARGE = /^(?:torch|torchvision|torchaudio)\b/i;

const VERSION = "(?:===|==|~=|!=|<=|>=|<|>)\\s*[A-Za-z0-9.*+!_-]+";
const PATTERN = new RegExp(
  `^(?:${BASE_PACKAGES.join("|")})(?:\\[[A-Za-z0-9._, -]*\\])?\\s*(?:${VERSION}(?:\\s*,\\s*${VERSION})*)?$`,
  "i",
);

/** Which of the requirements are large, by name: ["torch"]. */
export function largeOnes(requirements: readonly string[]): string[] {
  return [...new Set(requirements.flatMap((text) => LARGE.exec(text)?.[0].toLowerCase() ?? []))];
}

export function isBaseRequirement(text: string): boolean {
  return text.length <= REQUIREMENT_MAX_CHARS && PATTERN.test(text);
}
