/**
 * Looks at what alerts are about, and tells their webhooks:
 *
 *   check ──changed──▶ row: firing or not, with the message ──▶ POST ──2xx──▶ delivered
 *                                                     ▲          └──else──▶ again after about 10 s, at most twice ──▶ given up
 *                                                     └────────────────────────┘
 *
 * Several platforms may look at once: the row says who was first with each step.
 */
import { type AlertState, checked } from "../domain/alert.ts";
import {
  ALERT_CHECK_MS,
  ALERT_MESSAGES_MAX,
  ALERT_SUBJECTS_MAX,
  WEBHOOK_RETRIES_MAX,
  WEBHOOK_RETRY_MS,
  WEBHOOK_TIMEOUT_MS,
} from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { AlertRecord } from "../store/alerts.ts";
import type { Store } from "../store/store.ts";
import { signature } from "./message.ts";
import { PrivateAddress, postWebhook } from "./request.ts";

/** What a check found: the worst value, and what has it, in words. */
export interface Measured {
  readonly value: number;
  readonly subjects: readonly string[];
}

export interface AlertsDeps {
  readonly store: Pick<Store, "alerts">;
  readonly measure: (
    alert: Pick<AlertRecord, "kind" | "environmentId" | "endpointId" | "threshold">,
  ) => Promise<Measured>;
  readonly secret: string;
  readonly allowPrivate: boolean;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly publicUrl: () => string;
  readonly onError: (name: string, error: unknown) => void;
  /** Milliseconds; other than in production only in tests. */
  readonly retryMs?: number;
  readonly checkMs?: number;
}

type Said = "firing" | "cleared" | "test";

export class Alerts {
  readonly #deps: AlertsDeps;
  readonly #reconciler: Reconciler;
  readonly #states = new Map<string, AlertState>();
  readonly #stop = new AbortController();

  constructor(deps: AlertsDeps) {
    this.#deps = deps;
    this.#reconciler = new Reconciler("alerts", deps.checkMs ?? ALERT_CHECK_MS, () => this.look(), deps.onError);
  }

  start(): void {
    this.#reconciler.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reconciler.stop();
  }

  /** One check of all, and what is due. */
  async look(): Promise<void> {
    const alerts = await this.#deps.store.alerts.list();
    for (const id of this.#states.keys()) if (!alerts.some((alert) => alert.id === id)) this.#states.delete(id);
    for (const alert of alerts) {
      if (this.#stop.signal.aborted) return;
      await this.#check(alert);
    }
    // One receiver that is slow holds up its own messages only.
    await Promise.all((await this.#deps.store.alerts.list()).map((alert) => this.#deliver(alert)));
  }

  /** Sends a message that says it is a test, now. Resolves "delivered", or why not. */
  test(alert: AlertRecord): Promise<string> {
    return this.#post(alert, this.#message(alert, "test", { value: 0, subjects: [] }));
  }

  async #check(alert: AlertRecord): Promise<void> {
    const { store, measure, clock } = this.#deps;
    const found = await measure(alert);
    const known = this.#states.get(alert.id);
    const before = known?.firing === alert.firing ? known : { firing: alert.firing, checks: 0 };
    const after = checked(alert.kind, alert.threshold, before, found.value);
    if (after.firing === before.firing) {
      this.#states.set(alert.id, after);
      return;
    }
    const message = this.#message(alert, after.firing ? "firing" : "cleared", found);
    const messages = [...alert.messages, message].slice(-ALERT_MESSAGES_MAX);
    const now = clock();
    const due = alert.messages.length === 0 ? { failures: 0, dueAt: now } : {};
    const changes = { firing: after.firing, lastAt: now, lastDelivery: "due", messages, ...due };
    if (await store.alerts.update(alert.id, changes, alert)) this.#states.set(alert.id, after);
  }

  async #deliver(alert: AlertRecord): Promise<void> {
    const { store, clock, retryMs = WEBHOOK_RETRY_MS } = this.#deps;
    const [message] = alert.messages;
    if (message === undefined || alert.dueAt > clock()) return;
    // Whoever is killed before the answer leaves it to be tried again.
    const claimed = { ...alert, dueAt: clock() + WEBHOOK_TIMEOUT_MS };
    if (!(await store.alerts.update(alert.id, { dueAt: claimed.dueAt }, alert))) return;
    const lastDelivery = await this.#post(alert, message);
    if (this.#stop.signal.aborted && lastDelivery !== DELIVERED) return;
    const again = lastDelivery !== DELIVERED && lastDelivery !== PRIVATE && alert.failures < WEBHOOK_RETRIES_MAX;
    const dueAt = again ? clock() + retryMs : clock();
    const failures = again ? alert.failures + 1 : 0;
    // What came to be said meanwhile stays.
    for (let seen: AlertRecord | undefined = claimed, done = false; !done && seen !== undefined; ) {
      const messages = again ? seen.messages : seen.messages.slice(1);
      done = await store.alerts.update(alert.id, { lastDelivery, messages, failures, dueAt }, seen);
      if (!done) seen = await store.alerts.find(alert.id);
    }
  }

  #message(alert: Pick<AlertRecord, "id" | "kind" | "threshold">, state: Said, { value, subjects }: Measured): string {
    const { clock, publicUrl } = this.#deps;
    const { id, kind, threshold } = alert;
    const some = subjects.slice(0, ALERT_SUBJECTS_MAX);
    return JSON.stringify({
      alert: id,
      kind,
      state,
      at: clock(),
      threshold,
      value,
      subjects: some,
      platform: publicUrl(),
    });
  }

  async #post({ url }: AlertRecord, message: string): Promise<string> {
    const { secret, allowPrivate, clock } = this.#deps;
    const body = Buffer.from(message);
    const headers = {
      "content-type": "application/json",
      "user-agent": `svc/${VERSION}`,
      "x-svc-signature": signature(secret, clock(), body),
    };
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(WEBHOOK_TIMEOUT_MS)]);
    try {
      const status = await postWebhook({ url, headers, body, signal, allowPrivate });
      return status >= 200 && status < 300 ? DELIVERED : `answered ${status}`;
    } catch (error) {
      if (error instanceof PrivateAddress) return PRIVATE;
      // The address itself may be a secret, and this is shown.
      return (error as Error).name === "AbortError"
        ? "no answer in time"
        : ((error as { code?: string }).code ?? "failed");
    }
  }
}

const DELIVERED = "delivered";
const PRIVATE = "the address is a private one; SVC_WEBHOOK_PRIVATE=1 allows those";
