/**
 * Removing an endpoint without failing what it runs. A removed endpoint keeps its row while its workers drain:
 * it has an environment but no build of it, takes no new work, and is hidden from every list. Once it has no
 * workers its jobs are forgotten and the row is deleted.
 */

export interface Removable {
  readonly id: string;
  readonly name: string;
  readonly environmentId: string | null;
  readonly buildId: string | null;
}

/** True while the endpoint only drains: callers get "not found". */
export function isRemoved(endpoint: Pick<Removable, "environmentId" | "buildId">): boolean {
  return endpoint.environmentId !== null && endpoint.buildId === null;
}

/** What marks an endpoint as removed. Its name is free for a new endpoint at once. */
export function removal(endpoint: Removable, now: number) {
  return {
    name: `${endpoint.name}~${endpoint.id}`,
    buildId: null,
    workersMin: 0,
    workersMax: 0,
    reason: "removed",
    updatedAt: now,
  } as const;
}
