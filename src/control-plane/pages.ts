/** Pages of a list that grows at its beginning: `after` names the last thing of the page before, so nothing moves. */
import { SvcError } from "../domain/errors.ts";
import { RECORDS_PAGE_MAX } from "../domain/limits.ts";

export interface PageWish {
  readonly first: number;
  readonly after?: string | null;
}

/** The wish as numbers; `before` undefined for the first page. Throws BAD_INPUT. */
export function readPage({ first, after }: PageWish): { readonly first: number; readonly before?: number } {
  if (first < 1 || first > RECORDS_PAGE_MAX) {
    throw new SvcError("BAD_INPUT", `"first" must be 1 to ${RECORDS_PAGE_MAX}, not ${first}.`);
  }
  if (after === undefined || after === null || after === "") return { first };
  const before = Number(after);
  if (/^\d{1,16}$/.test(after) && Number.isSafeInteger(before)) return { first, before };
  throw new SvcError("BAD_INPUT", '"after" must be the "next" of an earlier page.');
}

/** The same where rows may be of several platforms, whose page is named by a text. */
export function readRowsPage(wish: PageWish): { readonly first: number; readonly before?: number | string } {
  const { after } = wish;
  if (after == null || !/^[\w-]{17,8000}$/.test(after)) return readPage(wish);
  return { ...readPage({ first: wish.first }), before: after };
}

/** Of rows that were asked for one more than `first`. */
export function pageOf<R>(rows: readonly R[], first: number, numberOf: (row: R) => number | string) {
  const shown = rows.slice(0, first);
  return { shown, next: rows.length > first ? String(numberOf(shown.at(-1)!)) : null };
}
