/** Jobs of several endpoints in one list, as svc jobs shows them. */
import { History, type JobFilter, type ListedJob } from "../client/history.ts";
import type { JobState } from "../domain/job.ts";
import { shortJobId } from "../domain/job.ts";
import type { Connection } from "./connect.ts";
import { dateTime, formatAge, formatDuration } from "./format.ts";
import type { Terminal } from "./terminal.ts";

interface Shown {
  readonly limit: number;
  readonly wide: boolean;
  readonly json: boolean;
  readonly stateText: (state: JobState) => string;
}

export async function listAllJobs(
  terminal: Terminal,
  { controlPlane }: Connection,
  filter: JobFilter,
  { limit, wide, json, stateText }: Shown,
): Promise<void> {
  const { rows, more } = await new History(controlPlane.platform).jobs(filter, limit);
  if (json) return terminal.json(rows);
  if (rows.length === 0) return terminal.note("There are no such jobs.");
  const nameOf = namesOf(rows);
  await terminal.table(
    [
      "JOB",
      "ENDPOINT",
      "STATE",
      "AGE",
      ...(wide ? ["SUBMITTED"] : []),
      "WAITED",
      "RAN",
      ...(wide ? ["WORKER"] : []),
      "ERROR",
    ],
    rows.map((job) => [
      wide ? job.id : shortJobId(job.id),
      nameOf(job),
      stateText(job.state) + (job.attempt > 1 ? ` (attempt ${job.attempt})` : ""),
      formatAge(Date.now() - job.createdAt),
      ...(wide ? [dateTime(job.createdAt)] : []),
      job.waitMs === null ? "-" : formatDuration(job.waitMs),
      job.runMs === null ? "-" : formatDuration(job.runMs),
      ...(wide ? [job.workerId ?? "-"] : []),
      job.error !== "" || job.hasBodies ? job.error : terminal.colors.dim("result not kept"),
    ]),
    wide ? "all" : ["JOB", "STATE", "AGE"],
  );
  if (more) terminal.note(`There are more; --limit ${limit * 10} shows them.`);
}

/** With their place where a name stands for several. */
function namesOf(jobs: readonly ListedJob[]): (job: ListedJob) => string {
  const ids = new Map<string, Set<string>>();
  for (const { endpoint, endpointId } of jobs) ids.set(endpoint, (ids.get(endpoint) ?? new Set()).add(endpointId));
  return ({ endpoint, app, environment }) =>
    ids.get(endpoint)!.size === 1 || app === null ? endpoint : `${app}/${environment}/${endpoint}`;
}
