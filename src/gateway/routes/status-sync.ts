import { isFinal } from "../../domain/job.ts";
import { WAIT_DEFAULT_MS, WAIT_MAX_MS, WAIT_MIN_MS } from "../../domain/limits.ts";
import { jobJson } from "../job-json.ts";
import { FOLLOW, GET_OR_POST, type JobRoute, jobOf, ownJob } from "../job-route.ts";
import { wholeNumber } from "../query.ts";
import { sendJson } from "../respond.ts";
import { jobTiming, serverTiming } from "../server-timing.ts";

/** The job as soon as it is final, or as it is when the wait is over. */
export const statusSync: JobRoute = {
  name: "status-sync",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "status",
  namesJob: true,
  async handle(call, gateway) {
    const wait = wholeNumber(call.query, "wait", WAIT_MIN_MS, WAIT_MAX_MS) ?? WAIT_DEFAULT_MS;
    let job = await jobOf(call, gateway);
    if (!isFinal(job.state)) {
      const signal = gateway.lookers.watch(call.req, call.res);
      job = ownJob(await gateway.queue.wait(call.jobId, wait, signal), call);
    }
    const now = gateway.now();
    const timing = jobTiming(job, now, gateway.workers.bootOf?.(job.workerId));
    sendJson(call.res, jobJson(job, now), ["Server-Timing", serverTiming(timing)]);
  },
};
