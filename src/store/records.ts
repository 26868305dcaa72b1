/** What the store keeps of what happened: deploys, and who did what. Both are written with the act they tell of, and only appended to. */
import type { AuditEntry, AuditFilter } from "../domain/audit.ts";
import type { BuildVerdict } from "../domain/build-verdict.ts";

/** A build that was made live. Outlives its build and its environment. */
export interface DeployRecord {
  /** Rises with each. */
  readonly id: number;
  readonly buildId: string;
  readonly environmentId: string;
  /** Names as they were then. */
  readonly app: string;
  readonly environment: string;
  readonly at: number;
  readonly action: "deploy" | "rollback";
  /** "" when not known, like the two below. */
  readonly keyName: string;
  readonly gitCommit: string;
  readonly message: string;
  readonly verdict: BuildVerdict;
  /** Names of the build's endpoints. */
  readonly endpoints: readonly string[];
  /** What was created, updated and removed, a line each. */
  readonly changes: readonly string[];
  /** It is what the environment has now. */
  readonly live: boolean;
}

export interface DeployFilter {
  /** That of the caller, when it sees only one. */
  readonly environmentId?: string;
  readonly app?: string;
  readonly environment?: string;
}

export interface DeployRepository {
  insert(deploy: Omit<DeployRecord, "id" | "live">): Promise<void>;
  /** Newest first, those before the one numbered `before`. */
  list(filter: DeployFilter, first: number, before?: number): Promise<DeployRecord[]>;
  /** Drops those from before `at`, and all but the newest `keep`. */
  trim(at: number, keep: number): Promise<void>;
}

export interface StoredAuditEntry extends AuditEntry {
  /** Rises with each. */
  readonly id: number;
}

export interface AuditRepository {
  append(entry: AuditEntry): Promise<void>;
  /** Newest first, those before the one numbered `before`. */
  list(filter: AuditFilter, first: number, before?: number): Promise<StoredAuditEntry[]>;
  /** Drops those from before `at`, and of those with `action`, or of all others, all but the newest `keep`. */
  trim(
    at: number,
    keep: { readonly action: string; readonly ofAction: number; readonly ofOthers: number },
  ): Promise<void>;
}
