/** The table of what can be called here. */
import { scheduleText } from "../domain/schedule.ts";
import type { LocalRoute } from "./local-routes.ts";
import type { Screen } from "./screen.ts";

/** Local path, description, kind: LB for load-balanced routes, QB for queue-based functions. */
export function routeRows(routes: readonly LocalRoute[]): [path: string, description: string, kind: string][] {
  return routes.map((route) => [
    `${route.method} ${route.kind === "queue" ? `${route.path}/runsync` : route.path}`,
    firstLine(route.function.doc),
    route.kind === "queue" ? "QB" : "LB",
  ]);
}

export async function showRoutes(screen: Screen, routes: readonly LocalRoute[]): Promise<void> {
  await screen.table(["LOCAL PATH", "DESCRIPTION", "KIND"], routeRows(routes));
  for (const { endpoint, schedule } of routes) {
    if (schedule === undefined) continue;
    screen.note(`${endpoint}: ${scheduleText(schedule)} once it is deployed; svc run calls nothing by a schedule.`);
  }
}

/** What a save changed: lines "+ POST /worker/runsync" and "- …". */
export function routeChanges(before: readonly LocalRoute[], after: readonly LocalRoute[]): string[] {
  const old = routeRows(before).map(([path]) => path);
  const now = routeRows(after).map(([path]) => path);
  return [
    ...now.filter((path) => !old.includes(path)).map((path) => `+ ${path}`),
    ...old.filter((path) => !now.includes(path)).map((path) => `- ${path}`),
  ];
}

function firstLine(doc: string): string {
  return doc.trim().split("\n")[0]!.trim();
}
