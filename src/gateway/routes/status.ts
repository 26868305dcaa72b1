import { jobJson, withInput } from "../job-json.ts";
import { FOLLOW, GET_OR_POST, type JobRoute, jobOf } from "../job-route.ts";
import { flag } from "../query.ts";
import { sendJson } from "../respond.ts";

/** The job as it is now; with ?input=true its input too. */
export const status: JobRoute = {
  name: "status",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "status",
  namesJob: true,
  async handle(call, gateway) {
    const job = await jobOf(call, gateway);
    const object = jobJson(job, gateway.now());
    const input = flag(call.query, "input") ? await gateway.queue.input(job.id) : undefined;
    sendJson(call.res, input === undefined ? object : withInput(object, input));
  },
};
