import { runJobId } from "../../domain/job.ts";
import { RUN_BODY_MAX_BYTES } from "../../domain/limits.ts";
import { CALL, type JobRoute } from "../job-route.ts";
import { sendObject } from "../respond.ts";
import { submit } from "../submit.ts";

/** Accepts a job and answers at once, whether or not a worker is there. */
export const run: JobRoute = {
  name: "run",
  methods: ["POST"],
  scopes: CALL,
  rate: "run",
  namesJob: false,
  async handle(call, gateway) {
    const jobId = runJobId(gateway.owners.mark(gateway.newId(), call));
    const { runMs: retentionMs } = gateway.retention;
    const { id, created } = await submit(call, gateway, { jobId, maxBytes: RUN_BODY_MAX_BYTES, retentionMs });
    const status = created ? "IN_QUEUE" : ((await gateway.queue.find(id))?.state ?? "IN_QUEUE");
    sendObject(call.res, { id, status });
  },
};
