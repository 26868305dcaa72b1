import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, endpointParameter, envFlag, switchFlag, valueFlag } from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

export const callCommand = command({
  brief: "Call a deployed endpoint",
  text: `Calls a deployed endpoint and prints what it gives back: text as text, anything else as JSON, chunks as they come.
The input is '{"json"}', name=value pairs, @FILE, or - for stdin.`,
  examples: [
    ["svc call hello name=Ada count=3", "Arguments by name"],
    [`svc call hello '{"name": "Ada"}'`, "The same as JSON"],
    ["svc call hello @input.json --logs --timing", "With what it prints and where the time went"],
    ["svc call hello name=Ada --async", "Print the job's id and go on"],
    ["svc call model --method predict text=hi", "A method of a class"],
    ['svc call api --route "GET /items/{id}" id=3', "A route of a load-balanced endpoint"],
  ],
  flags: {
    async: switchFlag("Print the job's id and do not wait"),
    method: valueFlag("NAME", "Method of a class"),
    route: valueFlag("ROUTE", 'Route of a load-balanced endpoint: "METHOD /path"'),
    logs: switchFlag("Show what the call prints, on stderr"),
    timing: switchFlag("Say where the call's time went, on stderr"),
    app: appFlag,
    env: envFlag,
  },
  aliases: { a: "app", e: "env" },
  words: { ...endpointParameter("Endpoint, then its input"), placeholder: "ENDPOINT_NAME [INPUT]" },
  async run(flags, ...[name = "", ...words]) {
    const connection = await requirePlatform(this);
    const endpoints = inScope(await connection.controlPlane.endpoints(), flags);
    const endpoint = endpointNamed(endpoints, name, detectedApp(this.cwd));
    if (endpoint.kind === "queue") {
      if (flags.route !== undefined) throw misplaced("--route", `${name} is queue-based and has no routes`);
      const { callJob } = await import("../call/job-call.ts");
      return callJob(this, connection, endpoint, words, flags);
    }
    if (flags.async) throw misplaced("--async", `${name} is load-balanced and has no jobs`);
    if (flags.method !== undefined) throw misplaced("--method", `${name} is load-balanced and has routes instead`);
    const { callRoute } = await import("../call/route-call.ts");
    return callRoute(this, connection, endpoint, words, flags);
  },
});

function misplaced(flag: string, why: string): SvcError {
  return new SvcError("USAGE", `${flag} does not fit here: ${why}.`);
}
