import { SvcError } from "../../domain/errors.ts";
import { CALL, type JobRoute, jobOf } from "../job-route.ts";
import { sendObject } from "../respond.ts";

/** Puts a failed or timed-out job back in the queue with its id and input. */
export const retry: JobRoute = {
  name: "retry",
  methods: ["POST"],
  scopes: CALL,
  rate: "run",
  namesJob: true,
  async handle(call, gateway) {
    await jobOf(call, gateway);
    gateway.owners.requireOwn(call);
    if (!(await gateway.queue.retry(call.jobId))) {
      const { state } = await jobOf(call, gateway);
      throw new SvcError("JOB_NOT_RETRYABLE", `The job is ${state}; only FAILED and TIMED_OUT jobs can be retried.`);
    }
    sendObject(call.res, { id: call.jobId, status: "IN_QUEUE" });
  },
};
