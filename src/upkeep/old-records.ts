import { REFUSED } from "../domain/audit.ts";
import {
  AUDIT_KEPT_MAX,
  AUDIT_KEPT_MS,
  AUDIT_REFUSED_KEPT_MAX,
  DEPLOYS_KEPT_MAX,
  DEPLOYS_KEPT_MS,
} from "../domain/limits.ts";
import type { Store } from "../store/store.ts";

/** Drops records of deploys and acts that were kept long enough. Refused tries, which anybody can make, push out only each other. */
export async function removeOldRecords(store: Pick<Store, "audit" | "deploys">, clock: () => number): Promise<void> {
  const now = clock();
  await store.deploys.trim(now - DEPLOYS_KEPT_MS, DEPLOYS_KEPT_MAX);
  await store.audit.trim(now - AUDIT_KEPT_MS, {
    action: REFUSED,
    ofAction: AUDIT_REFUSED_KEPT_MAX,
    ofOthers: AUDIT_KEPT_MAX,
  });
}
