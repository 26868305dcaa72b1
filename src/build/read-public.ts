import type { EndpointKind } from "../domain/endpoint.ts";
import { ALL_ROUTES } from "../domain/public-routes.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

/** `public=` of an endpoint or route. It has to stand in the source as it is: nobody opens a route by accident. */
export function readPublic(value: Value | undefined, report: Report): boolean {
  if (value === undefined || value.kind === "none") return false;
  if (value.kind === "boolean") return value.value;
  report({
    severity: "error",
    rule: value.kind === "unknown" || value.kind === "environment" ? "not-constant" : "invalid-setting",
    message: `public is True or False, not ${describeValue(value)}.`,
    help: "Write public=True to let everybody call it without a key.",
    at: value.at,
  });
  return false;
}

/** `public=` of an endpoint as its `publicRoutes`. */
export function publicOf(value: Value | undefined, kind: EndpointKind, report: Report): string {
  if (!readPublic(value, report)) return "";
  if (kind === "load-balanced") return ALL_ROUTES;
  report({
    severity: "error",
    rule: "public-queue",
    message: "public=True is for load-balanced endpoints: the jobs of a queue-based one need a key.",
    help: 'Remove it, or make a route of the function: api = Endpoint(…) and @api.post("/path", public=True).',
    at: value!.at,
  });
  return "";
}
