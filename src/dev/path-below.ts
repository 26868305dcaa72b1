/**
 * The path of a local call as it is passed on: as it came, below the endpoint's own. It is never resolved here, and one that
 * something on the way could resolve (`..`, also encoded or with backslashes) is refused: it would leave the endpoint, with
 * the developer's key.
 */
import { SvcError } from "../domain/errors.ts";

/** What node:http takes as a path: no spaces, no control characters. */
const SENDABLE = /^[!-\u00ff]*$/;
const SLASH = /\/|\\|%2f|%5c/i;
const DOT = /%2e/gi;

/** `base` is the endpoint's path, `path` what stands behind it, without the query. Throws BAD_INPUT. */
export function pathBelow(base: string, path: string, query: string): string {
  const leaves = path.split(SLASH).some((part) => part.replace(DOT, ".") === "..");
  if (!leaves && path.startsWith("/") && SENDABLE.test(path) && SENDABLE.test(query)) {
    return `${base.replace(/\/+$/, "")}${path}${query === "" ? "" : `?${query}`}`;
  }
  throw new SvcError("BAD_INPUT", `The path ${JSON.stringify(path.slice(0, 200))} leads out of the endpoint.`, {
    help: 'Call the path itself, without ".." in it.',
  });
}
