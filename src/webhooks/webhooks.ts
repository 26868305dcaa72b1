/**
 * Delivers webhooks, each at least once:
 *
 *   job final ──same transaction──▶ row ──due──▶ POST ──2xx──▶ settled
 *                                    ▲             └──else──▶ again after about 10 s, at most twice ──▶ given up, logged
 *                                    └──────────────────────────────┘
 *
 * What is being sent is known only here: after a crash it is due again. One receiver gets a part of the places, so
 * that a slow one does not hold up the others. Nothing here changes a job.
 */
import { isMoved } from "../domain/errors.ts";
import { isFinal } from "../domain/job.ts";
import {
  WEBHOOK_CHECK_MS,
  WEBHOOK_RETRIES_MAX,
  WEBHOOK_RETRY_JITTER_MS,
  WEBHOOK_RETRY_MS,
  WEBHOOK_TIMEOUT_MS,
  WEBHOOKS_AT_ONCE,
  WEBHOOKS_AT_ONCE_PER_HOST,
} from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { Delivery, JobReader, WebhookOutbox } from "../queue/queue.ts";
import { type JobJson, signature, webhookBody } from "./message.ts";
import { PrivateAddress, postWebhook } from "./request.ts";

export interface WebhooksDeps {
  readonly queue: WebhookOutbox & Pick<JobReader, "find" | "input">;
  readonly jobJson: JobJson;
  readonly secret: string;
  /** Private, loopback, link-local and metadata addresses too. */
  readonly allowPrivate: boolean;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** From 0 to 1. */
  readonly random: () => number;
  readonly log: { error(message: string, fields?: Readonly<Record<string, unknown>>): void };
  /** Milliseconds; other than in production only in tests. */
  readonly retryMs?: number;
  readonly timeoutMs?: number;
}

export class Webhooks {
  readonly #deps: WebhooksDeps;
  readonly #reconciler: Reconciler;
  readonly #sending = new Map<number, { readonly host: string; readonly done: Promise<void> }>();
  readonly #stop = new AbortController();

  constructor(deps: WebhooksDeps) {
    this.#deps = deps;
    this.#reconciler = new Reconciler(
      "webhooks",
      Math.min(WEBHOOK_CHECK_MS, deps.retryMs ?? WEBHOOK_CHECK_MS),
      () => this.#startDue(),
      (_name, error) => deps.log.error("webhooks cannot be delivered", { error }),
    );
  }

  start(): void {
    this.#reconciler.start();
    this.#reconciler.nudge();
  }

  /** One became due. */
  nudge(): void {
    if (!this.#stop.signal.aborted) this.#reconciler.nudge();
  }

  /** Breaks off what is being sent; it is due at the next start. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reconciler.stop();
    await Promise.all([...this.#sending.values()].map(({ done }) => done));
  }

  async #startDue(): Promise<void> {
    while (this.#sending.size < WEBHOOKS_AT_ONCE && !this.#stop.signal.aborted) {
      const due = await this.#deps.queue.dueDeliveries(WEBHOOKS_AT_ONCE + this.#sending.size, this.#busyHosts());
      let started = 0;
      for (const delivery of due) {
        if (this.#sending.size >= WEBHOOKS_AT_ONCE) return;
        if (this.#sending.has(delivery.id) || this.#busyHosts().includes(delivery.host)) continue;
        this.#start(delivery);
        started++;
      }
      if (started === 0) return;
    }
  }

  #start(delivery: Delivery): void {
    const { log } = this.#deps;
    const done = this.#deliver(delivery)
      .catch((error: unknown) => {
        // The platform that has its job by now delivers it, perhaps once more.
        if (!isMoved(error)) log.error("a webhook could not be settled", { job: delivery.jobId, error });
      })
      .then(() => {
        this.#sending.delete(delivery.id);
        this.nudge();
      });
    this.#sending.set(delivery.id, { host: delivery.host, done });
  }

  #busyHosts(): string[] {
    const counts = new Map<string, number>();
    for (const { host } of this.#sending.values()) counts.set(host, (counts.get(host) ?? 0) + 1);
    return [...counts].filter(([, count]) => count >= WEBHOOKS_AT_ONCE_PER_HOST).map(([host]) => host);
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { queue, clock, random, log, retryMs = WEBHOOK_RETRY_MS } = this.#deps;
    const failure = await this.#attempt(delivery);
    if (this.#stop.signal.aborted && failure !== undefined) return;
    if (failure === undefined) return queue.settleDelivery(delivery.id, null);
    if (!failure.final && delivery.failures < WEBHOOK_RETRIES_MAX) {
      const jitterMs = Math.min(WEBHOOK_RETRY_JITTER_MS, retryMs) * random();
      return queue.settleDelivery(delivery.id, Math.round(clock() + retryMs + jitterMs));
    }
    const { jobId: job, host } = delivery;
    log.error("a webhook was given up", { job, host, attempts: delivery.failures + 1, reason: failure.reason });
    await queue.settleDelivery(delivery.id, null);
  }

  /** Undefined when it was delivered, or there is nothing to deliver any more. */
  async #attempt({ jobId, url }: Delivery): Promise<{ reason: string; final: boolean } | undefined> {
    const { queue, jobJson, secret, allowPrivate, clock, timeoutMs = WEBHOOK_TIMEOUT_MS } = this.#deps;
    try {
      const job = await queue.find(jobId);
      if (job === undefined || !isFinal(job.state)) return undefined;
      const body = webhookBody(job, await queue.input(jobId), clock(), jobJson);
      const headers = {
        "content-type": "application/json",
        "user-agent": `svc/${VERSION}`,
        "x-svc-signature": signature(secret, clock(), body),
      };
      const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(timeoutMs)]);
      const status = await postWebhook({ url, headers, body, signal, allowPrivate });
      return status >= 200 && status < 300 ? undefined : { reason: `answered ${status}`, final: false };
    } catch (error) {
      return { reason: reasonOf(error), final: error instanceof PrivateAddress };
    }
  }
}

function reasonOf(error: unknown): string {
  const { name, code, message } = error as NodeJS.ErrnoException;
  return name === "AbortError" ? "no answer in time" : [code, message].filter(Boolean).join(": ");
}
