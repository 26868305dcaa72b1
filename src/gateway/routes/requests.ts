import { SvcError } from "../../domain/errors.ts";
import { JOB_STATES, type JobState } from "../../domain/job.ts";
import { INLINE_BODY_MAX_BYTES, REQUESTS_PAGE_SIZE } from "../../domain/limits.ts";
import { checkedJobJson, withInput } from "../job-json.ts";
import { type JobRoute, LOOK } from "../job-route.ts";
import { wholeNumber } from "../query.ts";
import { sendJson } from "../respond.ts";

/**
 * The endpoint's jobs, newest first: ?limit, ?status, ?before=<job id>. A full page carries `next`, the `before` of the
 * one after it. Inputs and outputs above 64 KiB are left out: /status has them.
 */
export const requests: JobRoute = {
  name: "requests",
  methods: ["GET"],
  scopes: LOOK,
  rate: "requests",
  namesJob: false,
  async handle(call, gateway) {
    const limit = wholeNumber(call.query, "limit", 1, REQUESTS_PAGE_SIZE) ?? REQUESTS_PAGE_SIZE;
    const parameters = new URLSearchParams(call.query);
    const before = parameters.get("before") ?? undefined;
    const jobs = await gateway.queue.list(call.endpoint.id, {
      state: stateOf(parameters.get("status")),
      limit,
      before,
    });
    const now = gateway.now();
    const parts: Buffer[] = [];
    for (const [index, job] of jobs.entries()) {
      const object = checkedJobJson(job, now, (job.output?.length ?? 0) <= INLINE_BODY_MAX_BYTES);
      const input = await gateway.queue.input(job.id, INLINE_BODY_MAX_BYTES);
      parts.push(Buffer.from(index === 0 ? "" : ","), input === undefined ? object : withInput(object, input));
    }
    const last = jobs.at(-1);
    const end = jobs.length === limit && last !== undefined ? `],"next":${JSON.stringify(last.id)}}` : "]}";
    sendJson(call.res, Buffer.concat([Buffer.from('{"requests":['), ...parts, Buffer.from(end)]));
  },
};

function stateOf(text: string | null): JobState | undefined {
  if (text === null) return undefined;
  const state = JOB_STATES.find((known) => known === text);
  if (state !== undefined) return state;
  throw new SvcError("BAD_INPUT", `The query parameter "status" must be one of ${JOB_STATES.join(", ")}.`);
}
