import type { SvcError } from "../domain/errors.ts";

/** A platform as whoever started it sees it. */
export interface RunningPlatform {
  readonly url: string;
  /** Only at the first start of a data directory. */
  readonly firstKey: string | undefined;
  /** What the machine lacks of what keeps workers apart, in words. */
  readonly missing: readonly string[];
  /**
   * `now` ends running jobs; otherwise they get a grace to finish, which a later call with `now` cuts short. No worker is
   * left either way.
   */
  stop(options: { now: boolean }): Promise<void>;
  /** Resolves why it must end, when another platform has taken its database; where platforms share endpoints, once its callers are answered. */
  readonly lost: Promise<SvcError>;
  /** Copies the databases for the backups that wait for it. */
  snapshot(): void;
  /** Logs a failure that no part of the platform took for its own. */
  defect(error: unknown): void;
}
