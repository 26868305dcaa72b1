/**
 * Requirements that the platform installs by itself, outside any worker: packages of the base, by name and version. Nothing
 * else may stand there: an address, a path or an option would be the caller's word to an installer on the platform's machine.
 */
import { z } from "zod";
import { REQUIREMENT_MAX_CHARS } from "./limits.ts";
import { BASE_PACKAGES } from "./manifest.ts";

const VERSION = "(?:===|==|~=|!=|<=|>=|<|>)\\s*[A-Za-z0-9.*+!_-]+";
const PATTERN = new RegExp(
  `^(?:${BASE_PACKAGES.join("|")})(?:\\[[A-Za-z0-9._, -]*\\])?\\s*(?:${VERSION}(?:\\s*,\\s*${VERSION})*)?$`,
  "i",
);

export function isBaseRequirement(text: string): boolean {
  return text.length <= REQUIREMENT_MAX_CHARS && PATTERN.test(text);
}

export const baseRequirement = z
  .string()
  .refine(isBaseRequirement, `must be one of ${BASE_PACKAGES.join(", ")}, perhaps with a version ("numpy>=2")`);
