/** The routes of a noun: its list, one, and what makes, changes and removes one. */
import type { RequestContext } from "../context.ts";
import type { RestCall, Route } from "./route.ts";

/** How a form of the API writes it. */
export interface NounForm<T> {
  readonly path: string;
  /** The field with the list; without it the list is the whole answer. */
  readonly listedAs?: string;
  /** Some clients change one by POST …/:id/update as well. */
  readonly updates?: boolean;
  readonly show: (one: T) => object;
}

interface NounActions<T> {
  readonly all: (context: RequestContext) => Promise<readonly T[]>;
  readonly one: (id: string, context: RequestContext) => Promise<T>;
  readonly create: (call: RestCall) => Promise<T>;
  /** Without it there is nothing to change. */
  readonly change?: (call: RestCall) => Promise<T>;
  readonly remove: (id: string, context: RequestContext) => Promise<unknown>;
}

/** Only for keys that are bound to nothing. */
export function nounRoutes<T>(form: NounForm<T>, actions: NounActions<T>): readonly Route[] {
  const { path, listedAs, updates = false, show } = form;
  const { all, one, create, change, remove } = actions;
  const list = async ({ context }: RestCall) => {
    const shown = (await all(context)).map(show);
    return listedAs === undefined ? shown : { [listedAs]: shown };
  };
  const find = async ({ id, context }: RestCall) => show(await one(id, context));
  const shown = (act: (call: RestCall) => Promise<T>) => async (call: RestCall) => show(await act(call));
  const end = async ({ id, context }: RestCall) => {
    await remove(id, context);
    return undefined;
  };
  const routes: Route[] = [
    { method: "GET", path: [path], answer: list },
    { method: "POST", path: [path], answer: shown(create) },
    { method: "GET", path: [path, ":id"], answer: find },
    { method: "DELETE", path: [path, ":id"], answer: end },
  ];
  if (change !== undefined) {
    routes.push({ method: "PATCH", path: [path, ":id"], answer: shown(change) });
    if (updates) routes.push({ method: "POST", path: [path, ":id", "update"], answer: shown(change) });
  }
  return routes.map((route) => ({ ...route, unbound: true }));
}
