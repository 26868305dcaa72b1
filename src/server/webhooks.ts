/** What the platform tells webhooks, wired: jobs that are over, and alerts. */
import { randomInt } from "node:crypto";
import { checkedJobJson } from "../gateway/job-json.ts";
import type { JobQueue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import { type MeasureDeps, measures } from "../webhooks/alert-measures.ts";
import { Alerts } from "../webhooks/alerts.ts";
import { openWebhookSecret } from "../webhooks/message.ts";
import { Webhooks, type WebhooksDeps } from "../webhooks/webhooks.ts";
import type { Config } from "./config.ts";
import { webhookSecretFile } from "./identity.ts";

interface WebhookNeeds extends MeasureDeps, Pick<WebhooksDeps, "log"> {
  readonly config: Pick<Config, "dataDir" | "webhookPrivate">;
  readonly store: Store;
  readonly queue: JobQueue;
  readonly publicUrl: () => string;
  readonly onError: (name: string, error: unknown) => void;
}

export async function makeWebhooks({ config, publicUrl, onError, log, ...needs }: WebhookNeeds) {
  const { store, queue, clock } = needs;
  const secret = await openWebhookSecret(webhookSecretFile(config.dataDir));
  const allowPrivate = config.webhookPrivate;
  const random = () => randomInt(1000) / 1000;
  const measure = measures(needs);
  return {
    webhooks: new Webhooks({ queue, jobJson: checkedJobJson, secret, allowPrivate, clock, random, log }),
    alerts: new Alerts({ store, measure, secret, allowPrivate, clock, publicUrl, onError }),
  };
}
