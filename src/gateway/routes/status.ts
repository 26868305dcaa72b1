import { jobJson } from "../job-json.ts";
import { FOLLOW, GET_OR_POST, type JobRoute, jobOf } from "../job-route.ts";
import { sendJson } from "../respond.ts";

/** The job as it is now. */
export const status: JobRoute = {
  name: "status",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "status",
  namesJob: true,
  async handle(call, gateway) {
    sendJson(call.res, jobJson(await jobOf(call, gateway), gateway.now()));
  },
};
