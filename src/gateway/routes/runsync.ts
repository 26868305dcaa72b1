import { runsyncJobId } from "../../domain/job.ts";
import { RUNSYNC_BODY_MAX_BYTES, WAIT_DEFAULT_MS, WAIT_MAX_MS, WAIT_MIN_MS } from "../../domain/limits.ts";
import { jobJson } from "../job-json.ts";
import { CALL, type JobRoute, ownJob } from "../job-route.ts";
import { wholeNumber } from "../query.ts";
import { sendJson } from "../respond.ts";
import { jobTiming, serverTiming } from "../server-timing.ts";
import { submit } from "../submit.ts";

/** Accepts a job and answers when it is final, or with the job as it is when the wait is over. It goes on either way. */
export const runsync: JobRoute = {
  name: "runsync",
  methods: ["POST"],
  scopes: CALL,
  rate: "runsync",
  namesJob: false,
  async handle(call, gateway) {
    const wait = wholeNumber(call.query, "wait", WAIT_MIN_MS, WAIT_MAX_MS);
    const { id } = await submit(call, gateway, {
      jobId: runsyncJobId(gateway.owners.mark(gateway.newId(), call)),
      maxBytes: RUNSYNC_BODY_MAX_BYTES,
      retentionMs: wait === undefined ? gateway.retention.runsyncMs : gateway.retention.runsyncWaitMs,
    });
    const signal = gateway.callers.watch(call.req, call.res);
    const job = ownJob(await gateway.queue.wait(id, wait ?? WAIT_DEFAULT_MS, signal), { ...call, jobId: id });
    const now = gateway.now();
    const timing = jobTiming(job, now, gateway.workers.bootOf?.(job.workerId));
    sendJson(call.res, jobJson(job, now), ["Server-Timing", serverTiming(timing)]);
  },
};
