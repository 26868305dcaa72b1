import { FOLLOW, type JobRoute } from "../job-route.ts";
import { sendObject } from "../respond.ts";

/** How many jobs and workers the endpoint has, by state. */
export const health: JobRoute = {
  name: "health",
  methods: ["GET"],
  scopes: FOLLOW,
  namesJob: false,
  async handle(call, gateway) {
    const [jobs, workers] = await Promise.all([
      gateway.queue.counts(call.endpoint.id),
      gateway.workers.counts(call.endpoint.id),
    ]);
    const { completed, failed, inProgress, inQueue, retried } = jobs;
    const { idle, initializing, ready, running, throttled, unhealthy } = workers;
    sendObject(call.res, {
      jobs: { completed, failed, inProgress, inQueue, retried },
      workers: { idle, initializing, ready, running, throttled, unhealthy },
    });
  },
};
