/** Values in a query string. */
import { SvcError } from "../domain/errors.ts";

/** A whole number within bounds; undefined when it is not given. Throws BAD_INPUT. */
export function wholeNumber(query: string, name: string, min: number, max: number): number | undefined {
  if (query === "") return undefined;
  const text = new URLSearchParams(query).get(name);
  if (text === null) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new SvcError("BAD_INPUT", `The query parameter "${name}" must be a whole number from ${min} to ${max}.`);
}

/** True or false; false when it is not given. Throws BAD_INPUT. */
export function flag(query: string, name: string): boolean {
  if (query === "") return false;
  const text = new URLSearchParams(query).get(name);
  if (text === null || text === "false") return false;
  if (text === "true") return true;
  throw new SvcError("BAD_INPUT", `The query parameter "${name}" must be true or false.`);
}
