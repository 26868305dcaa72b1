/** How a build fared when it was live. One that was ready once stays so: what fails later is the machine's doing. */
export interface BuildVerdict {
  /** pending: no endpoint failed, not all have shown that they start; unknown: made by a version that did not say. */
  readonly state: "pending" | "ready" | "failed" | "unknown";
  /** Why it failed; "" when it did not. */
  readonly reason: string;
  /** When it was found; null while pending or unknown. */
  readonly at: number | null;
}
