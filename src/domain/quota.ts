import { QUOTA_HOLDERS_SHOWN, WORKER_QUOTA } from "./limits.ts";
import { isLiveName } from "./names.ts";

/** An endpoint as far as the quota is concerned. */
export interface QuotaHolder {
  readonly name: string;
  readonly workersMax: number;
}

/**
 * Why `workersMax` over all endpoints passes the quota, with those that hold most of it; undefined when it fits.
 * Endpoints of `svc run` are not counted: nobody chose them, and they have no standing workers.
 */
export function quotaProblem(endpoints: readonly QuotaHolder[], quota: number = WORKER_QUOTA): string | undefined {
  const holders = endpoints.filter(({ name, workersMax }) => workersMax > 0 && !isLiveName(name));
  const total = holders.reduce((sum, { workersMax }) => sum + workersMax, 0);
  if (total <= quota) return undefined;
  const largest = holders.toSorted((a, b) => b.workersMax - a.workersMax).slice(0, QUOTA_HOLDERS_SHOWN);
  const shown = largest.map(({ name, workersMax }) => `${name} ${workersMax}`).join(", ");
  const rest = holders.length > largest.length ? `, and ${holders.length - largest.length} more` : "";
  return (
    `Max workers across all endpoints must not exceed your workers quota (${quota}); this would need ${total}: ` +
    `${shown}${rest}. Reduce \`workers\` or remove unused endpoints, or start the platform with a higher SVC_WORKER_QUOTA.`
  );
}
