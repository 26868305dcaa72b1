/** Webhooks that are owed. Their rows are written where a job becomes final (core.owedWebhook). */
import { WEBHOOK_WINDOW_HOSTS } from "../../domain/limits.ts";
import type { Delivery, WebhookOutbox } from "../queue.ts";
import type { QueueCore } from "./core.ts";

export function queueOutbox(core: QueueCore): WebhookOutbox {
  const { sql } = core;
  /** Receiver that was asked last. */
  let lastHost = "";

  /**
   * The due ones of the next receivers in turn, for when all that is longest due belongs to receivers that are busy:
   * a hundred thousand deliveries owed to one of them are not read to find those of another.
   */
  function dueOfOthers(now: number, limit: number, exceptHosts: readonly string[]): { id: number }[] {
    const found: { id: number; due_at: number }[] = [];
    const asked = new Set<string>();
    for (let hosts = 0; hosts < WEBHOOK_WINDOW_HOSTS; hosts++) {
      const next = (sql.nextWebhookHost.get(lastHost) ?? sql.firstWebhookHost.get()) as { host: string } | undefined;
      if (next === undefined || asked.has(next.host)) break;
      lastHost = next.host;
      asked.add(lastHost);
      if (exceptHosts.includes(lastHost)) continue;
      found.push(...(sql.dueWebhooksOfHost.all(lastHost, now, limit) as { id: number; due_at: number }[]));
    }
    return found.sort((a, b) => a.due_at - b.due_at).slice(0, limit);
  }

  return {
    async dueDeliveries(limit, exceptHosts) {
      const now = core.clock();
      let due = sql.dueWebhooks.all(now, JSON.stringify(exceptHosts), limit) as { id: number }[];
      if (due.length < limit && exceptHosts.length > 0) due = dueOfOthers(now, limit, exceptHosts);
      return due.map(({ id }) => ({ ...sql.webhook.get(id) }) as unknown as Delivery);
    },

    settleDelivery: (id, retryAt) =>
      core.keep(() => {
        if (retryAt === null) sql.deleteWebhook.run(id);
        else sql.postponeWebhook.run(retryAt, id);
      }),
  };
}
