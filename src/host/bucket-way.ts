/**
 * The way to layers that leads past the platform: a presigned URL of its bucket, where a ticket has one. When it fails in whatever
 * way, that is told once, and the platform is asked for a while.
 */
import { LAYER_BUCKET_ANSWER_MAX_MS, LAYER_BUCKET_PAUSE_MS } from "../domain/agent-limits.ts";
import type { LayerTicket } from "../domain/host-protocol.ts";
import type { LayerSource } from "./layer-request.ts";

export class BucketWay {
  readonly #told: (bucket: string, reason: string) => void;
  /** By the monotonic clock: it is not asked before. */
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #isTold = false;

  constructor(told: (bucket: string, reason: string) => void) {
    this.#told = told;
  }

  /** Undefined: the platform is to be asked. */
  of({ bucketUrl }: LayerTicket): LayerSource | undefined {
    if (bucketUrl === undefined || performance.now() < this.#pausedUntil) return undefined;
    return { who: "The bucket", url: bucketUrl, headers: {}, beginsMs: LAYER_BUCKET_ANSWER_MAX_MS };
  }

  worked(): void {
    this.#isTold = false;
  }

  failed({ bucketUrl }: LayerTicket, reason: string): void {
    if (bucketUrl === undefined) return;
    this.#pausedUntil = performance.now() + LAYER_BUCKET_PAUSE_MS;
    if (this.#isTold) return;
    this.#isTold = true;
    // Without what is signed: it lets whoever has it fetch the layer.
    this.#told(new URL(bucketUrl).host, reason);
  }
}
