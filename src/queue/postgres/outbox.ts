/** Webhooks that are owed. Their rows are written where a job becomes final (changes.ts). */
import { WEBHOOK_WINDOW_HOSTS, WEBHOOK_WINDOW_ROWS } from "../../domain/limits.ts";
import type { Delivery, WebhookOutbox } from "../queue.ts";
import type { PostgresCore } from "./core.ts";
import { shardOfNumber } from "./ownership.ts";

type Due = Delivery & { readonly due_at: number };
const DELIVERY = `id, job_id AS "jobId", url, host, failures, due_at`;
/** Of the first due ones only: how many rows it reads is known. */
const due = (
  within: string,
) => `SELECT ${DELIVERY} FROM (SELECT * FROM job_webhooks WHERE due_at <= $1${within} ORDER BY due_at, id
    LIMIT ${WEBHOOK_WINDOW_ROWS}) w WHERE host <> ALL($2) ORDER BY due_at, id LIMIT $3`;
const ofHost = (within: string) =>
  `SELECT ${DELIVERY} FROM job_webhooks WHERE host = $1 AND due_at <= $2${within} ORDER BY due_at, id LIMIT $3`;
/** The next, or the first again. */
const NEXT_HOST = `(SELECT host FROM job_webhooks WHERE host > $1 ORDER BY host LIMIT 1)
  UNION ALL (SELECT host FROM job_webhooks ORDER BY host LIMIT 1) LIMIT 1`;

export function queueOutbox(core: PostgresCore): WebhookOutbox {
  const { db } = core;
  /** Receiver that was asked last. */
  let lastHost = "";

  /**
   * The due ones of the next receivers in turn, for when all that is longest due belongs to receivers that are busy:
   * a hundred thousand deliveries owed to one of them are not read to find those of another.
   */
  async function dueOfOthers(now: number, limit: number, exceptHosts: readonly string[]): Promise<Due[]> {
    const found: Due[] = [];
    const asked = new Set<string>();
    for (let hosts = 0; hosts < WEBHOOK_WINDOW_HOSTS; hosts++) {
      const [next] = await db.read<{ host: string }>(NEXT_HOST, [lastHost]);
      if (next === undefined || asked.has(next.host)) break;
      lastHost = next.host;
      asked.add(lastHost);
      if (exceptHosts.includes(lastHost)) continue;
      found.push(...(await db.read<Due>(ofHost(core.ownership.within("id")), [lastHost, now, limit])));
    }
    return found.sort((a, b) => a.due_at - b.due_at).slice(0, limit);
  }

  return {
    async dueDeliveries(limit, exceptHosts) {
      const now = core.clock();
      let found = await db.read<Due>(due(core.ownership.within("id")), [now, exceptHosts, limit]);
      if (found.length < limit && exceptHosts.length > 0) found = await dueOfOthers(now, limit, exceptHosts);
      return found.map(({ id, jobId, url, host, failures }) => ({ id, jobId, url, host, failures }));
    },

    settleDelivery: (id, retryAt) =>
      core.keep(() => {
        core.checkNumber(id);
        core.unit.shards.add(shardOfNumber(id));
        core.unit.settled.set(id, retryAt);
      }),
  };
}
