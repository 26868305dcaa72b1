/** Whether the platform's bucket can be used: told by every request, and asked when there was none for a while. */

import { SvcError } from "../domain/errors.ts";
import { BUCKET_AWAY_CHECK_MS, BUCKET_CHECK_MS } from "../domain/limits.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { Bucket } from "./bucket.ts";

/** Written, looked for and removed once, at the start. */
const PROBE = "probe";

export interface BucketWatchHooks {
  began(error: SvcError): void;
  ended(awayMs: number): void;
}

export class BucketWatch {
  readonly #bucket: Bucket;
  readonly #hooks: BucketWatchHooks;
  readonly #now: () => number;
  readonly #asking: Reconciler;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #away: { readonly since: number; readonly error: SvcError } | undefined;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(bucket: Bucket, hooks: BucketWatchHooks, now: () => number) {
    this.#bucket = bucket;
    this.#hooks = hooks;
    this.#now = now;
    const ask = () => this.#ask();
    this.#asking = new Reconciler("bucket", BUCKET_AWAY_CHECK_MS, ask, (_, error) => this.#told(error));
  }

  /** Undefined as long as all is well. */
  get trouble(): SvcError | undefined {
    return this.#away?.error;
  }

  /**
   * Tries all that the platform will do there. Throws BUCKET_REFUSED. A bucket that is away is waited for: what runs needs
   * little of it.
   */
  async start(): Promise<void> {
    try {
      await this.#bucket.put(PROBE, Buffer.from("svc"));
      for await (const _ of this.#bucket.list(PROBE, 1)) break;
      await this.#bucket.head(PROBE);
      await this.#bucket.delete(PROBE);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "BUCKET_AWAY") throw error;
      this.#told(error);
    }
    this.#bucket.onRequest((error) => this.#told(error));
    this.#asking.start();
  }

  async stop(): Promise<void> {
    await this.#asking.stop();
  }

  async #ask(): Promise<void> {
    if (this.#away === undefined && this.#now() - this.#answeredAt < BUCKET_CHECK_MS) return;
    // What fails is told on the way.
    const isThere = await this.#answers().catch(() => false);
    if (!isThere || this.#away === undefined) return;
    const { since } = this.#away;
    this.#away = undefined;
    this.#hooks.ended(this.#now() - since);
  }

  async #answers(): Promise<boolean> {
    for await (const _ of this.#bucket.list("", 1)) break;
    return true;
  }

  #told(error: unknown): void {
    if (error === undefined) this.#answeredAt = this.#now();
    if (!(error instanceof SvcError) || this.#away !== undefined) return;
    this.#away = { since: this.#now(), error };
    this.#hooks.began(error);
  }
}
