import { History } from "../../client/history.ts";
import { shortJobId } from "../../domain/job.ts";
import {
  appFlag,
  command,
  endpointParameter,
  envFlag,
  jsonFlag,
  pastTime,
  valueFlag,
  wholeNumber,
} from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { formatAge } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 500;

export const errorsCommand = command({
  brief: "Show what fails, grouped by error and place",
  text: "Shows failed jobs and requests by what was raised and where, those that came last first.",
  examples: [
    ["svc jobs errors", "Of all endpoints"],
    ["svc jobs errors hello --since 1d", "Of one, of the last day"],
  ],
  flags: {
    since: valueFlag("TIME", "Only since the hour of then: 2h or 1d ago, 2026-11-22T14:30", pastTime),
    limit: valueFlag("N", `At most so many; default: ${LIMIT_DEFAULT}`, wholeNumber(1, LIMIT_MAX)),
    app: appFlag,
    env: envFlag,
    json: jsonFlag,
  },
  aliases: { n: "limit", a: "app", e: "env" },
  parameters: [{ ...endpointParameter("Endpoint; default: all"), optional: true }],
  async run({ since: from, limit = LIMIT_DEFAULT, json, ...scope }, name?: string) {
    const { terminal } = this;
    const { controlPlane } = await requirePlatform(this);
    const place =
      name === undefined
        ? { app: scope.app, environment: scope.env }
        : { endpoint: endpointNamed(inScope(await controlPlane.endpoints(), scope), name, detectedApp(this.cwd)).id };
    const groups = await new History(controlPlane.platform).errorGroups({ ...place, from }, limit);
    if (json) return terminal.json(groups);
    if (groups.length === 0) return terminal.note("Nothing has failed.");
    await terminal.table(
      ["ENDPOINT", "TIMES", "LAST", "WHERE", "ERROR", "LAST JOB"],
      groups.map((group) => [
        group.endpoint,
        String(group.count),
        `${formatAge(Date.now() - group.lastAt)} ago`,
        group.place === "" ? "-" : group.place,
        group.message,
        group.lastJobId === null ? "-" : shortJobId(group.lastJobId),
      ]),
      ["TIMES", "LAST", "LAST JOB"],
    );
  },
});
