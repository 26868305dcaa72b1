import type { ScheduleRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, endpointParameter, envFlag, group, jsonFlag } from "../command.ts";
import { type Connection, requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { endpointClient } from "../find-job.ts";
import { clockTime, dateTime, formatAge } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope, placeOf } from "../select-endpoints.ts";

const DAY_MS = 24 * 3_600_000;

const flags = { app: appFlag, env: envFlag, json: jsonFlag };
const aliases = { a: "app", e: "env" } as const;
interface Flags {
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

const listSchedules = command({
  brief: "List the endpoints that are called by a schedule",
  text: "Lists the endpoints that are called by a schedule, with their next tick in local time.",
  examples: [
    ["svc schedule", "Every schedule of the platform"],
    ["svc schedule list --json", "The same for programs, times in milliseconds since the epoch"],
  ],
  flags: {
    app: { ...appFlag, brief: "Only this app" },
    env: { ...envFlag, brief: "Only this environment" },
    json: jsonFlag,
  },
  aliases,
  async run(flags) {
    const { terminal } = this;
    const { controlPlane } = await requirePlatform(this);
    const schedules = inScope(await controlPlane.schedules(), flags);
    if (flags.json) return terminal.json(schedules);
    if (schedules.length === 0)
      return terminal.note('No endpoint has a schedule. One has: Endpoint(schedule="0 3 * * *").');
    await terminal.table(
      ["ENDPOINT", "PLACE", "SCHEDULE", "NEXT", "LAST"],
      schedules.map((one) => [one.name, placeOf(one), one.schedule.text, nextText(one), lastText(one)]),
      ["ENDPOINT", "SCHEDULE"],
    );
  },
});

const pauseSchedule = command({
  brief: "Stop calling an endpoint by its schedule",
  text: "Stops calling an endpoint by its schedule until it is resumed, over deploys and restarts. Jobs that were made go on.",
  examples: [["svc schedule pause report", "No tick of it makes a job"]],
  flags,
  aliases,
  parameters: [endpointParameter("Endpoint")],
  run(flags, name) {
    return setPaused(this, flags, name, true);
  },
});

const resumeSchedule = command({
  brief: "Call an endpoint by its schedule again",
  text: "Calls an endpoint by its schedule again, from its next tick on: what came meanwhile is not made up for.",
  examples: [["svc schedule resume report", "Its next tick makes a job"]],
  flags,
  aliases,
  parameters: [endpointParameter("Endpoint")],
  run(flags, name) {
    return setPaused(this, flags, name, false);
  },
});

const runSchedule = command({
  brief: "Call a scheduled endpoint now, with the input of its schedule",
  text: "Submits the job that a tick would make, now. Its schedule goes on as before, also one that is paused.",
  examples: [["svc schedule run report", "Prints the job's id"]],
  flags,
  aliases,
  parameters: [endpointParameter("Endpoint")],
  async run(flags, name) {
    const connection = await requirePlatform(this);
    const endpoint = await scheduled(this, connection, flags, name);
    const job = await endpointClient(endpoint.url, connection.apiKey).run(endpoint.schedule.input);
    if (flags.json) return this.terminal.json(job);
    this.terminal.out(`${job.id} is in the queue. svc jobs show ${job.id} follows it.`);
  },
});

export const scheduleCommands = group(
  "Look at schedules, pause and resume them",
  { list: listSchedules, pause: pauseSchedule, resume: resumeSchedule, run: runSchedule },
  {
    text: "Looks at the endpoints that are called by a schedule: Endpoint(schedule=…) or Endpoint(every=…).",
    examples: [
      ["svc schedule", "Every schedule with its next tick"],
      ["svc schedule pause report", "Stop calling it"],
      ["svc schedule run report", "Call it now"],
    ],
    defaultCommand: "list",
  },
);

async function setPaused(context: CliContext, flags: Flags, name: string, paused: boolean): Promise<void> {
  const { terminal } = context;
  const connection = await requirePlatform(context);
  const { id } = await scheduled(context, connection, flags, name);
  const endpoint = await connection.controlPlane.pauseSchedule(id, paused);
  if (flags.json) return terminal.json(endpoint);
  terminal.out(`The schedule of ${endpoint.name} is ${paused ? "paused" : `on. Next: ${nextText(endpoint)}`}.`);
}

async function scheduled(context: CliContext, { controlPlane }: Connection, flags: Flags, name: string) {
  const all = inScope(await controlPlane.schedules(), flags);
  if (all.some((one) => one.name === name || one.id === name))
    return endpointNamed(all, name, detectedApp(context.cwd));
  const { name: known } = endpointNamed(inScope(await controlPlane.endpoints(), flags), name, detectedApp(context.cwd));
  throw new SvcError("USAGE", `Endpoint "${known}" has no schedule.`, {
    help: 'Give it one in the code: Endpoint(schedule="0 3 * * *") or Endpoint(every="10m").',
  });
}

function nextText({ schedule: { paused, next } }: ScheduleRecord): string {
  if (paused) return "paused";
  if (next === null) return "never";
  const inMs = next - Date.now();
  return inMs < DAY_MS ? `in ${formatAge(inMs)} (${clockTime(next)})` : dateTime(next);
}

function lastText({ schedule: { lastTick, lastJobId } }: ScheduleRecord): string {
  return lastTick === null ? "-" : `${dateTime(lastTick)}${lastJobId === "" ? ", left out" : ""}`;
}
