/**
 * Sends a layer, and goes on where it stopped when the connection breaks or the platform is started again:
 *
 *   ask (HEAD) ──all is there──▶ done
 *       │ n bytes are
 *       ▼
 *   send from n ──stored──▶ done
 *       │ broke off, or another sends the same layer
 *       └─▶ pause, ask again; without a further byte for `patienceMs`: give up
 */
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { type ErrorCode, SvcError } from "../domain/errors.ts";
import {
  CLIENT_RETRY_PAUSE_MAX_MS,
  CLIENT_RETRY_PAUSE_MS,
  UPLOAD_IDLE_MAX_MS,
  UPLOAD_PATIENCE_MS,
  UPLOAD_UNASKED_MAX_BYTES,
} from "../domain/limits.ts";
import { type Platform, unreachable } from "./answer-error.ts";
import { fetchText, refusalOf, sendStream } from "./request.ts";

export interface UploadOptions {
  /** Bytes sent so far; fewer than before when it broke off and the platform has not got them all. */
  readonly onProgress?: (sentBytes: number) => void;
  /** It broke off and is tried again. */
  readonly onBreak?: (reason: SvcError) => void;
  /** 0: the first break is the end. Another upload of the layer is waited for in any case. */
  readonly patienceMs?: number;
}

/** What may well be otherwise in a moment. */
const PASSING: ReadonlySet<ErrorCode> = new Set(["PLATFORM_UNREACHABLE", "SLOW_REQUEST", "SHUTTING_DOWN", "CONFLICT"]);

/** Throws what the platform refuses, and what broke the upload when it does not go on. */
export async function uploadLayer(
  platform: Platform,
  digest: string,
  path: string,
  options: UploadOptions = {},
): Promise<void> {
  const { onProgress = () => {}, onBreak = () => {}, patienceMs = UPLOAD_PATIENCE_MS } = options;
  const { size } = await stat(path);
  let patience = new Patience(patienceMs);
  let isRestarted = false;
  for (let asks = size > UPLOAD_UNASKED_MAX_BYTES; ; asks = true) {
    let arrived = 0;
    try {
      if (asks) arrived = await bytesArrived(platform, digest);
      patience.note(arrived);
      onProgress(Math.min(arrived, size));
      if (arrived !== Number.POSITIVE_INFINITY) await sendFrom(platform, digest, path, arrived, size, onProgress);
      return;
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      if (error.code === "LAYER_CORRUPT" && arrived > 0 && !isRestarted) {
        // What was there was not of this layer, and is gone now.
        isRestarted = true;
        patience = new Patience(patienceMs);
      } else {
        if (!PASSING.has(error.code)) throw error;
        await patience.pause(error, onBreak);
      }
    }
  }
}

/** Infinity when the layer is whole. */
async function bytesArrived(platform: Platform, digest: string): Promise<number> {
  const url = `${platform.url}/layers/${digest}`;
  const { status, headers } = await fetchText(platform, url, { method: "HEAD", idleMs: UPLOAD_IDLE_MAX_MS });
  if (status >= 500) throw unreachable(platform.url, new Error(`it answered ${status}`));
  if (status === 200) return Number.POSITIVE_INFINITY;
  // The answer to any other question has no words: the upload itself will be told.
  return status === 204 ? Number(headers["upload-offset"] ?? 0) : 0;
}

async function sendFrom(
  platform: Platform,
  digest: string,
  path: string,
  arrived: number,
  size: number,
  onProgress: (sentBytes: number) => void,
): Promise<void> {
  // More than the layer has is not of this layer.
  const offset = arrived > size ? 0 : arrived;
  const rest = { "upload-offset": offset, "upload-complete": "?1", "content-type": "application/partial-upload" };
  let sent = offset;
  const bytes = createReadStream(path, { start: offset }).on("data", (chunk) => {
    sent += chunk.length;
    onProgress(sent);
  });
  const { status, text } = await sendStream(platform, `/layers/${digest}`, bytes, {
    method: offset === 0 ? "PUT" : "PATCH",
    headers: { ...(offset > 0 && rest), "content-length": size - offset },
    timeout: UPLOAD_IDLE_MAX_MS,
  });
  if (status >= 300) throw refusalOf(platform, status, text);
}

/** Ends with the first break after which nothing arrived for `ms`. */
class Patience {
  readonly #ms: number;
  #arrived = 0;
  #brokenAt: number | undefined;
  #pauseMs = CLIENT_RETRY_PAUSE_MS;

  constructor(ms: number) {
    this.#ms = ms;
  }

  note(arrived: number): void {
    if (arrived <= this.#arrived) return;
    this.#arrived = arrived;
    this.#brokenAt = undefined;
    this.#pauseMs = CLIENT_RETRY_PAUSE_MS;
  }

  async pause(reason: SvcError, onBreak: (reason: SvcError) => void): Promise<void> {
    const now = performance.now();
    this.#brokenAt ??= now;
    const ms = reason.code === "CONFLICT" ? UPLOAD_PATIENCE_MS : this.#ms;
    if (ms === 0) throw reason;
    if (now - this.#brokenAt >= ms) {
      throw new SvcError(reason.code, `The upload broke off. ${reason.message}`, {
        help: "What has arrived is kept for a day: svc deploy continues where it stopped.",
        cause: reason,
      });
    }
    onBreak(reason);
    await delay(this.#pauseMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, CLIENT_RETRY_PAUSE_MAX_MS);
  }
}
