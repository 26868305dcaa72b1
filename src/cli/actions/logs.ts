import { endpointLogs, type LogLine } from "../../client/logs.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { clockTime } from "../format-time.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";
import type { Terminal } from "../terminal.ts";

interface Flags {
  readonly follow?: boolean;
  readonly job?: string;
  readonly tail?: number;
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

/** What an endpoint's workers printed. With --follow until Ctrl+C. */
export async function logs(this: CliContext, flags: Flags, name: string): Promise<void> {
  const { terminal } = this;
  const connection = await findPlatform(this);
  if (connection === undefined) throw noPlatform();
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
}

function show(terminal: Terminal, { at, worker, stream, text }: LogLine): void {
  const { dim, yellow } = terminal.colors;
  terminal.out(`${dim(`${clockTime(at)} ${worker}`)} ${stream === "stderr" ? yellow(text) : text}`);
}
