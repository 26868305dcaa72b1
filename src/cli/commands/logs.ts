import { followLogs } from "../../client/follow-logs.ts";
import { allLogs, endpointLogs, type LogLine, type LogRequest } from "../../client/logs.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../../domain/limits.ts";
import { LOG_LEVELS, type LogLevel } from "../../domain/log-level.ts";
import {
  appFlag,
  command,
  endpointParameter,
  envFlag,
  jsonFlag,
  oneOf,
  pastTime,
  switchFlag,
  valueFlag,
  wholeNumber,
} from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { clockTime, dateTime } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";
import type { Terminal } from "../terminal.ts";

/** What the workers of an endpoint, or of all, printed. With --follow until Ctrl+C. */
export const logsCommand = command({
  brief: "Show what workers print",
  text: "Shows what functions print, the tracebacks of failed jobs and what workers report, oldest first. Without a name: of all endpoints. Secrets are masked.",
  examples: [
    ["svc logs hello", "The newest lines"],
    ["svc logs hello --follow", "And those to come"],
    ["svc logs --since 1h --level error", "Of all endpoints, what failed in the last hour"],
    ["svc logs hello --job 3c5e… --json", "Of one job, for programs"],
  ],
  flags: {
    follow: switchFlag("Go on with new lines until Ctrl+C"),
    job: valueFlag("ID", "Only lines of this job"),
    since: valueFlag("TIME", "Only lines since then: 10m, 2h or 1d ago, 14:30, 2026-11-22T14:30", pastTime),
    until: valueFlag("TIME", "Only lines until then", pastTime),
    level: valueFlag("LEVEL", `Only lines at least so grave: ${LOG_LEVELS.join(", ")}`, oneOf(LOG_LEVELS)),
    grep: valueFlag("TEXT", "Only lines with this text, in whatever case"),
    tail: valueFlag("N", `Newest lines; default: ${LOG_TAIL_DEFAULT_LINES}`, wholeNumber(1, LOG_TAIL_MAX_LINES)),
    app: appFlag,
    env: envFlag,
    json: { ...jsonFlag, brief: "Print one JSON object a line" },
  },
  aliases: { f: "follow", n: "tail", a: "app", e: "env" },
  parameters: [{ ...endpointParameter("Endpoint; default: all"), optional: true }],
  async run(flags, name?: string) {
    if (flags.follow && flags.until !== undefined) {
      throw new SvcError("USAGE", "--follow goes on, and --until ends: give one of them.");
    }
    const { terminal } = this;
    const connection = await requirePlatform(this);
    const { platform } = connection.controlPlane;
    const scope = inScope(await connection.controlPlane.endpoints(), flags);
    const endpoint = name === undefined ? undefined : endpointNamed(scope, name, detectedApp(this.cwd));
    const isNarrowed = flags.app !== undefined || flags.env !== undefined;
    const ids = isNarrowed ? scope.map(({ id }) => id) : undefined;
    let lines = 0;
    const read = (wanted: LogRequest) =>
      endpoint ? endpointLogs(platform, endpoint.id, wanted) : allLogs(platform, ids, wanted);
    const onAway = () => terminal.note("The platform does not answer any more, and is asked again.");
    const source = flags.follow ? followLogs(read, flags, onAway) : read(flags);
    if (endpoint !== undefined || ids?.length !== 0) {
      const names = namesOf(scope);
      for await (const line of source) {
        lines++;
        const shown = line.endpoint === undefined ? line : { ...line, endpoint: names(line.endpoint) };
        if (flags.json) terminal.write(`${JSON.stringify(shown)}\n`);
        else show(terminal, shown);
      }
    }
    if (lines > 0 || flags.follow) return;
    const isFiltered = [flags.job, flags.since, flags.until, flags.level, flags.grep].some((one) => one !== undefined);
    const what = isFiltered ? "such a line" : "anything";
    terminal.note(`${endpoint === undefined ? "No endpoint has" : `${endpoint.name} has not`} printed ${what}.`);
  },
});

/** Ids → names, with their place where a name stands for several. */
function namesOf(endpoints: readonly EndpointRecord[]): (id: string) => string {
  const byId = new Map(endpoints.map((endpoint) => [endpoint.id, endpoint]));
  const count = (name: string) => endpoints.filter((one) => one.name === name).length;
  return (id) => {
    const found = byId.get(id);
    if (found === undefined) return id;
    return count(found.name) === 1 ? found.name : `${found.app}/${found.environment}/${found.name}`;
  };
}

function show(terminal: Terminal, { at, endpoint, worker, stream, level, text }: LogLine): void {
  const { dim } = terminal.colors;
  const today = new Date().toDateString() === new Date(at).toDateString();
  const time = today ? clockTime(at) : dateTime(at);
  const where = endpoint === undefined ? worker : `${endpoint} ${worker}`;
  terminal.out(`${dim(`${time} ${where}`)} ${colored(terminal, level, stream)(text)}`);
}

function colored({ colors }: Terminal, level: LogLevel | undefined, stream: LogLine["stream"]) {
  if (level === "error") return colors.red;
  return level === "warning" || stream === "stderr" ? colors.yellow : (text: string) => text;
}
