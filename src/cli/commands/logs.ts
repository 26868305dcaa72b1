import { endpointLogs, type LogLine } from "../../client/logs.ts";
import { LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../../domain/limits.ts";
import {
  appFlag,
  command,
  endpointParameter,
  envFlag,
  jsonFlag,
  switchFlag,
  valueFlag,
  wholeNumber,
} from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { clockTime } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";
import type { Terminal } from "../terminal.ts";

/** What an endpoint's workers printed. With --follow until Ctrl+C. */
export const logsCommand = command({
  brief: "Show what an endpoint's workers print",
  text: "Shows what functions print and what workers report, oldest first. Secrets are masked.",
  examples: [
    ["svc logs hello", "The newest lines"],
    ["svc logs hello --follow", "And those to come"],
    ["svc logs hello --job 3c5e… --json", "Of one job, for programs"],
  ],
  flags: {
    follow: switchFlag("Go on with new lines until Ctrl+C"),
    job: valueFlag("ID", "Only lines of this job"),
    tail: valueFlag("N", `Newest lines; default: ${LOG_TAIL_DEFAULT_LINES}`, wholeNumber(1, LOG_TAIL_MAX_LINES)),
    app: appFlag,
    env: envFlag,
    json: { ...jsonFlag, brief: "Print one JSON object a line" },
  },
  aliases: { f: "follow", n: "tail", a: "app", e: "env" },
  parameters: [endpointParameter("Endpoint")],
  async run(flags, name) {
    const { terminal } = this;
    const connection = await requirePlatform(this);
    const { platform } = connection.controlPlane;
    const all = inScope(await connection.controlPlane.endpoints(), flags);
    const endpoint = endpointNamed(all, name, detectedApp(this.cwd));
    let lines = 0;
    for await (const line of endpointLogs(platform, endpoint.id, flags)) {
      lines++;
      if (flags.json) terminal.write(`${JSON.stringify(line)}\n`);
      else show(terminal, line);
    }
    if (lines === 0 && !flags.follow)
      terminal.note(`${endpoint.name} has printed nothing${flags.job ? " in this job" : ""}.`);
  },
});

function show(terminal: Terminal, { at, worker, stream, text }: LogLine): void {
  const { dim, yellow } = terminal.colors;
  terminal.out(`${dim(`${clockTime(at)} ${worker}`)} ${stream === "stderr" ? yellow(text) : text}`);
}
