import { CALL, type JobRoute, jobOf, ownJob } from "../job-route.ts";
import { sendObject } from "../respond.ts";

/** Ends a job that is not final; reaches a running one. A final job is answered as it is. */
export const cancel: JobRoute = {
  name: "cancel",
  methods: ["POST"],
  scopes: CALL,
  rate: "cancel",
  namesJob: true,
  async handle(call, gateway) {
    await jobOf(call, gateway);
    gateway.owners.requireOwn(call);
    const job = ownJob(await gateway.queue.cancel(call.jobId), call);
    sendObject(call.res, { id: job.id, status: job.state });
  },
};
