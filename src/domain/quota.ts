import { WORKER_QUOTA } from "./limits.ts";

/** The spec's message when `workersMax` over all endpoints would pass the quota; undefined when it fits. */
export function quotaProblem(workersMaxOfAll: readonly number[], quota: number = WORKER_QUOTA): string | undefined {
  const total = workersMaxOfAll.reduce((sum, max) => sum + max, 0);
  if (total <= quota) return undefined;
  return (
    `Max workers across all endpoints must not exceed your workers quota (${quota}); this would need ${total}. ` +
    "Reduce `workers` or remove unused endpoints."
  );
}
