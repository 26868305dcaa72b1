import { SvcError } from "../../domain/errors.ts";
import { CALL, type JobRoute } from "../job-route.ts";
import { sendObject } from "../respond.ts";

/** Deletes the jobs that wait; running ones go on. */
export const purgeQueue: JobRoute = {
  name: "purge-queue",
  methods: ["POST"],
  scopes: CALL,
  rate: "purge",
  namesJob: false,
  async handle(call, gateway) {
    if (call.principal.kind === "worker") {
      throw new SvcError("FORBIDDEN", "A worker's token cannot empty a queue.");
    }
    const removed = await gateway.queue.purge(call.endpoint.id);
    sendObject(call.res, { removed, status: "completed" });
  },
};
