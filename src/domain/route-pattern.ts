/** A route key of the manifest, `METHOD /path`, as what a call's method and path are compared with. */
export interface RoutePattern {
  readonly method: string;
  readonly path: RegExp;
}

const PARAMETER = /\{[^{}:]*(:path)?[^{}]*\}/g;

/** It takes every path that the worker takes for the route, and some that it does not. */
export function readRoute(key: string): RoutePattern {
  const space = key.indexOf(" ");
  const parts = key.slice(space + 1).split(PARAMETER);
  // split() puts each group between the parts: ":path" or undefined.
  const source = parts.map((part, i) => (i % 2 === 0 ? escaped(part ?? "") : part === ":path" ? ".*" : "[^/]+"));
  return { method: key.slice(0, space), path: new RegExp(`^${source.join("")}$`, "s") };
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
