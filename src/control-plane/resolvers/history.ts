/** What is in the history: requests, decisions, and errors by their kind, of the endpoints that the key sees. */
import { hash } from "node:crypto";
import { SvcError } from "../../domain/errors.ts";
import type { RequestContext } from "../context.ts";
import { type PageWish, pageOf, readPage, readRowsPage } from "../pages.ts";
import { type EndpointFilter, visibleEndpoints } from "../visible-endpoints.ts";

interface Span {
  readonly from?: number | null;
  readonly to?: number | null;
}

interface RequestFilter extends EndpointFilter, Span {
  readonly route?: string | null;
  readonly statusClass?: string | null;
  readonly id?: string | null;
}

/** A status, or the class of one: 404, 4xx, 5XX. */
const STATUS = /^[1-5](\d\d|\dx|xx)$/i;

/** Throws BAD_INPUT, ENDPOINT_NOT_FOUND. */
export async function requests(
  { filter, ...wish }: PageWish & { readonly filter?: RequestFilter | null },
  context: RequestContext,
) {
  const { first, before } = readRowsPage(wish);
  const { route, statusClass, id, from, to, ...place } = filter ?? {};
  if (statusClass && !STATUS.test(statusClass)) {
    throw new SvcError(
      "BAD_INPUT",
      `${JSON.stringify(statusClass.slice(0, 100))} is no status: give one as 404 or 4xx.`,
    );
  }
  const endpoints = await visibleEndpoints(place, context);
  const wanted = {
    ...spanOf({ from, to }),
    endpointIds: [...endpoints.keys()],
    route: route || undefined,
    status: statusClass || undefined,
    idStart: id?.trim() || undefined,
  };
  const rows = await context.records.requests(wanted, first + 1, before);
  const { shown, next } = pageOf(rows, first, ({ n, page }) => page ?? n);
  // One that no worker answered has no id of its own.
  const list = shown.map(({ page = "", ...row }) => ({
    ...row,
    id: row.id || `request-${row.n}${page && `-${hash("sha256", page).slice(0, 12)}`}`,
    endpoint: endpoints.get(row.endpointId)!.name,
  }));
  return { requests: list, next };
}

/** Throws BAD_INPUT, ENDPOINT_NOT_FOUND. */
export async function decisions(
  { first, after, from, to, ...place }: PageWish & EndpointFilter & Span,
  context: RequestContext,
) {
  const page = readRowsPage({ first, after });
  const endpoints = await visibleEndpoints(place, context);
  const wanted = { ...spanOf({ from, to }), endpointIds: [...endpoints.keys()] };
  const rows = await context.records.decisions(wanted, page.first + 1, page.before);
  const { shown, next } = pageOf(rows, page.first, (row) => row.page ?? row.n);
  const list = shown.map((row) => ({ ...row, endpoint: endpoints.get(row.endpointId)!.name }));
  return { decisions: list, next };
}

/** Throws BAD_INPUT, ENDPOINT_NOT_FOUND. */
export async function errorGroups(
  { first, from, to, ...place }: PageWish & EndpointFilter & Span,
  context: RequestContext,
) {
  const page = readPage({ first });
  const endpoints = await visibleEndpoints(place, context);
  const wanted = { ...spanOf({ from, to }), endpointIds: [...endpoints.keys()] };
  const groups = await context.records.errorGroups(wanted, page.first);
  return groups.map((group) => ({ ...group, endpoint: endpoints.get(group.endpointId)!.name }));
}

function spanOf({ from, to }: Span) {
  return { from: from ?? undefined, to: to ?? undefined };
}
