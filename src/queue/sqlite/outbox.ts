/** Webhooks that are owed. Their rows are written where a job becomes final (transitions.ts). */
import type { Delivery, WebhookOutbox } from "../queue.ts";
import type { QueueCore } from "./core.ts";

export function queueOutbox(core: QueueCore): WebhookOutbox {
  const { sql } = core;
  return {
    async dueDeliveries(limit, exceptHosts) {
      const rows = sql.dueWebhooks.all(core.clock(), JSON.stringify(exceptHosts), limit);
      return rows.map((row) => ({ ...row }) as unknown as Delivery);
    },

    settleDelivery: (id, retryAt) =>
      core.run(() => {
        if (retryAt === null) sql.deleteWebhook.run(id);
        else sql.postponeWebhook.run(retryAt, id);
      }),
  };
}
