/** Who did what. Never with a secret's value or a key: names and ids only. */
export interface AuditEntry {
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Null for a worker, for a caller whose key is unknown, and for the platform itself. */
  readonly keyId: string | null;
  readonly keyName: string;
  /** As key.create or build.deploy; access.refused for what was not allowed. */
  readonly action: string;
  /** What it was done to. */
  readonly target: string;
  readonly detail: string;
  /** Network address of the caller; "" for the platform itself. */
  readonly address: string;
}

/** Times in milliseconds since the epoch. */
export interface AuditFilter {
  readonly from?: number;
  readonly to?: number;
  readonly action?: string;
}

/** The action of a try that was not allowed. */
export const REFUSED = "access.refused";
