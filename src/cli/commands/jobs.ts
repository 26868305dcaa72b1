import { buildCommand, buildRouteMap } from "@stricli/core";
import { JOB_STATES, type JobState } from "../../domain/job.ts";
import { appFlag, endpointParameter, envFlag, jsonFlag, wholeNumber, withExamples } from "../flags.ts";

const LIMIT_MAX = 10_000;

const listSpec = buildCommand({
  loader: async () => (await import("../actions/jobs.ts")).listJobs,
  parameters: {
    flags: {
      status: {
        kind: "parsed",
        parse: jobState,
        optional: true,
        placeholder: "STATUS",
        brief: "Only jobs in this state",
      },
      limit: {
        kind: "parsed",
        parse: wholeNumber(1, LIMIT_MAX),
        optional: true,
        placeholder: "N",
        brief: "At most so many; default: 20",
      },
      app: appFlag,
      env: envFlag,
      json: jsonFlag,
    },
    aliases: { n: "limit", a: "app", e: "env" },
    positional: { kind: "tuple", parameters: [endpointParameter("Endpoint")] },
  },
  docs: {
    brief: "List an endpoint's jobs, newest first",
    fullDescription: withExamples("Lists the jobs of a queue-based endpoint, newest first.", [
      ["svc jobs hello", "The last 20 jobs"],
      ["svc jobs hello --status FAILED", "The dead letters"],
      ["svc jobs hello --limit 1000 --json", "Many, for programs"],
    ]),
  },
});

type Action = "showJob" | "printOutput" | "retryJob" | "cancelJob";

export const jobsRoutes = buildRouteMap({
  routes: {
    list: listSpec,
    show: oneJob("showJob", "Show a job with its input, output and error", "show"),
    output: oneJob("printOutput", "Print a job's output", "output"),
    retry: oneJob("retryJob", "Put a failed or timed-out job back in the queue", "retry"),
    cancel: oneJob("cancelJob", "Cancel a job that waits or runs", "cancel"),
  },
  defaultCommand: "list",
  docs: {
    brief: "Look at jobs, retry and cancel them",
    fullDescription: withExamples("Looks at the jobs of queue-based endpoints.", [
      ["svc jobs hello", "The last 20 jobs of an endpoint"],
      ["svc jobs hello --status FAILED", "Its dead letters"],
      ["svc jobs show JOB_ID", "One job with its input, output and error"],
      ["svc jobs retry JOB_ID", "Run a failed job again"],
    ]),
  },
});

function oneJob(action: Action, brief: string, name: string) {
  return buildCommand({
    loader: async () => (await import("../actions/jobs.ts"))[action],
    parameters: {
      flags: {
        endpoint: {
          kind: "parsed",
          parse: String,
          optional: true,
          placeholder: "NAME",
          brief: "Endpoint of the job; default: look in all of them",
        },
        json: jsonFlag,
      },
      positional: { kind: "tuple", parameters: [{ placeholder: "JOB_ID", parse: String, brief: "Job" }] },
    },
    docs: {
      brief,
      fullDescription: withExamples(`${brief}.`, [[`svc jobs ${name} JOB_ID`, "svc jobs ENDPOINT_NAME lists the ids"]]),
    },
  });
}

function jobState(text: string): JobState {
  const state = JOB_STATES.find((known) => known === text.toUpperCase());
  if (state === undefined) throw new Error(`one of ${JOB_STATES.join(", ")} is needed`);
  return state;
}
