import { NAME_MAX_CHARS } from "./limits.ts";

const NAME = /^[a-z0-9][a-z0-9_-]{0,62}$/;

/** Whether `name` can name an app, an environment or an endpoint: `[a-z0-9][a-z0-9_-]{0,62}`. */
export function isValidName(name: string): boolean {
  return NAME.test(name);
}

/** In an endpoint's place: which one is meant stands in headers (src/gateway/named-endpoint.ts). */
export const BY_NAME = "flash";

/** First parts of paths below /v2 that are the management API's. An endpoint's id has 14 letters and digits, and is none of them. */
const RESERVED_IDS = new Set(
  "serverless templates registries catalog account pods billing network-volumes global-volumes clusters".split(" "),
);

export function isReservedId(id: string): boolean {
  return RESERVED_IDS.has(id);
}

/** `svc run` puts it before the names of its environment and endpoints. */
export const LIVE_PREFIX = "live-";

/** Whether the environment or endpoint belongs to `svc run`: nobody else may use the prefix. */
export function isLiveName(name: string): boolean {
  return name.startsWith(LIVE_PREFIX);
}

/** What an app or environment is called while its endpoints drain: its own name is free for a new one at once. */
export function removedName({ name, id }: { readonly name: string; readonly id: string }): string {
  return `${name}~${id}`;
}

/** What it was called before it was removed; any other name as it is. */
export function nameBeforeRemoval(name: string): string {
  return name.split("~", 1)[0]!;
}

export function isRemovedName(name: string): boolean {
  return name.includes("~");
}

/** The closest valid name, for "did you mean": "My App!" → "my-app". Never empty. */
export function suggestName(name: string): string {
  const cleaned = name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/^[-_]+|[-_]+$/g, "")
    .slice(0, NAME_MAX_CHARS);
  return cleaned === "" ? "app" : cleaned;
}

/** The candidates nearest to `word` (edit distance at most a third of its length, at least 2), nearest first. */
export function nearest(word: string, candidates: Iterable<string>, count = 3): string[] {
  const limit = Math.max(2, Math.floor(word.length / 3));
  return [...candidates]
    .map((candidate) => ({ candidate, distance: editDistance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= limit)
    .sort((a, b) => a.distance - b.distance || a.candidate.localeCompare(b.candidate))
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** Levenshtein distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substitution, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
