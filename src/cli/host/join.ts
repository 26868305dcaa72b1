/** `svc worker join`: the agent in this process, until it is told to leave. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  AGENT_LEAVE_GRACE_MS,
  AGENT_REDIAL_FIRST_MS,
  AGENT_REDIAL_MAX_MS,
  FETCHED_LAYERS_KEPT_BYTES,
} from "../../domain/agent-limits.ts";
import { SvcError } from "../../domain/errors.ts";
import type { Agent } from "../../host/agent.ts";
import type { AgentEvent } from "../../host/agent-events.ts";
import { joinAddress, WrongPlatform } from "../../host/dial.ts";
import { type JoinOptions, join } from "../../host/join.ts";
import { readConfig } from "../../server/config.ts";
import type { CliContext } from "../context.ts";
import { clockTime, formatDuration } from "../format.ts";
import { exitCodeOf, formatError } from "../format-error.ts";
import { warnOfNoexec } from "../noexec.ts";
import { dataDir } from "../paths.ts";
import { warnOfUnknown } from "../platform/unknown-settings.ts";
import type { Progress } from "../terminal.ts";
import { NextAgent } from "./next-agent.ts";

export interface JoinFlags {
  readonly token?: string;
  readonly tokenFile?: string;
  readonly name?: string;
  readonly labels?: string;
  readonly cpus?: number;
  readonly memory?: number;
  readonly gpus?: number;
  readonly disk?: number;
  readonly grace?: number;
  readonly wait?: number;
  readonly driver?: "process" | "docker";
  readonly dataDir?: string;
  readonly sharedVolumes?: string;
  readonly json?: boolean;
}

const GB = 1024 ** 3;
const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;
const LABEL = /^[a-zA-Z0-9][\w.=-]{0,62}$/;

export async function joinHost(context: CliContext, flags: JoinFlags, address: string): Promise<void> {
  let code = 0;
  try {
    await joinUntilLeft(context, flags, address);
  } catch (error) {
    const { terminal, env } = context;
    terminal.note(formatError(error, terminal.errColors, env.SVC_DEBUG === "1"));
    code = exitCodeOf(error);
  }
  // Everything is closed; a handle that a library forgot, or a disk that does not answer, must not keep the process.
  context.exit(code);
}

async function joinUntilLeft(context: CliContext, flags: JoinFlags, address: string): Promise<void> {
  const { terminal, interrupt } = context;
  const options = joinOptions(context, flags, address);
  const show = flags.json ? jsonLines(context) : lines(context, options);
  const next = new NextAgent(context);
  const stopped = new AbortController();
  let leave = (again: boolean) => {
    if (again) interrupt.end();
    stopped.abort();
  };
  interrupt.claim((again) => leave(again));
  const progress = flags.json ? undefined : await terminal.progress(`Joining ${options.address.url}`);
  const all = { ...options, told: (event: AgentEvent) => show(event, progress), signal: stopped.signal };
  const agent = await joinWithin((flags.wait ?? 0) * 1000, all).catch((error: unknown) => {
    progress?.done();
    if (!stopped.signal.aborted) throw error;
    interrupt.note = "This machine did not join.";
    return interrupt.end();
  });
  progress?.done();
  warnOfUnknown(context);
  warnOfNoexec(terminal, options.config.dataDir);
  await terminal.neverWait();
  leave = (again) => agent.leave(again);
  if (stopped.signal.aborted) agent.leave(true);
  else if (!flags.json) terminal.out("Ctrl+C leaves.");
  next.whenWanted((problem) => {
    if (problem === undefined) agent.handOver();
    else show({ kind: "warning", ...problem }, undefined);
  });
  if ((await agent.ended) === "handedOver") next.begin();
  if (flags.json) terminal.out(JSON.stringify({ event: "left" }));
  else terminal.out("Left: no worker runs here any more.");
}

/** A platform that does not answer may be about to start, as may what leads to it. */
async function joinWithin(waitMs: number, options: JoinOptions): Promise<Agent> {
  const end = performance.now() + waitMs;
  for (let pauseMs = AGENT_REDIAL_FIRST_MS; ; pauseMs = Math.min(AGENT_REDIAL_MAX_MS, pauseMs * 2)) {
    try {
      return await join(options);
    } catch (error) {
      const isAway = (error as SvcError).code === "PLATFORM_UNREACHABLE" && !(error instanceof WrongPlatform);
      if (!isAway || performance.now() > end) throw error;
    }
    await delay(pauseMs, undefined, { signal: options.signal });
  }
}

/** Throws USAGE. */
export function joinOptions(
  context: CliContext,
  flags: JoinFlags,
  given: string,
): Omit<JoinOptions, "told" | "signal"> {
  const address = joinAddress(given);
  const { cwd, env } = context;
  const volumes = flags.sharedVolumes === undefined ? undefined : path.resolve(cwd, flags.sharedVolumes);
  const config = readConfig({
    ...env,
    SVC_DATA_DIR: flags.dataDir === undefined ? path.join(dataDir(env), "host") : path.resolve(cwd, flags.dataDir),
    SVC_DRIVER: flags.driver ?? env.SVC_DRIVER,
    SVC_VOLUMES_DIR: volumes,
  });
  return {
    address,
    token: tokenOf(context, flags),
    hello: { name: nameOf(flags), labels: labelsOf(flags), sharedVolumes: volumes !== undefined },
    config,
    caps: { cpus: flags.cpus, memoryGb: flags.memory, gpus: flags.gpus },
    graceMs: flags.grace === undefined ? AGENT_LEAVE_GRACE_MS : flags.grace * 1000,
    layersMaxBytes: flags.disk === undefined ? FETCHED_LAYERS_KEPT_BYTES : flags.disk * GB,
  };
}

/** From the file, the flag or the environment. */
export function tokenOf({ cwd, env }: CliContext, { token, tokenFile }: JoinFlags): string | undefined {
  if (tokenFile === undefined) return token ?? (env.SVC_HOST_TOKEN || undefined);
  if (token !== undefined) {
    throw new SvcError("USAGE", "Both --token and --token-file are given.", { help: "Give one of them." });
  }
  const file = path.resolve(cwd, tokenFile);
  try {
    const text = readFileSync(file, "utf8").trim();
    if (text !== "") return text;
  } catch (error) {
    throw new SvcError("USAGE", `The file of --token-file cannot be read: ${(error as Error).message}.`, {
      where: file,
    });
  }
  throw new SvcError("USAGE", "The file of --token-file is empty.", { where: file });
}

function nameOf({ name }: JoinFlags): string | undefined {
  if (name === undefined || NAME.test(name)) return name;
  throw new SvcError(
    "USAGE",
    `${JSON.stringify(name)} cannot name a host: a name has a-z, 0-9 and -, and at most 63 of them.`,
  );
}

function labelsOf({ labels = "" }: JoinFlags): string[] {
  const all = labels
    .split(",")
    .map((label) => label.trim())
    .filter((label) => label !== "");
  const bad = all.find((label) => !LABEL.test(label));
  if (bad === undefined) return [...new Set(all)];
  throw new SvcError(
    "USAGE",
    `${JSON.stringify(bad)} is no label: a label has letters, digits, ., _, = and -, and at most 63 of them.`,
  );
}

function jsonLines({ terminal }: CliContext) {
  return ({ kind, ...facts }: AgentEvent) => terminal.out(JSON.stringify({ event: kind, ...facts }));
}

/** A line for each thing that happens, with its time once the machine has joined. */
function lines({ terminal }: CliContext, { config }: Pick<JoinOptions, "config">) {
  let hasJoined = false;
  /** Why the platform is away, as it was said. */
  let away = "";
  const line = (text: string) => terminal.out(`${terminal.colors.dim(clockTime(Date.now()))}  ${text}`);
  return (event: AgentEvent, progress: Progress | undefined) => {
    switch (event.kind) {
      case "joined": {
        const runs =
          event.workers === 0 ? "" : `; ${counted(event.workers)} of before run${event.workers === 1 ? "s" : ""} on`;
        if (hasJoined) line(`Back at the platform${runs}`);
        else {
          progress?.done();
          terminal.out(`Joined ${event.platform} as ${event.host}${runs}. Its data is in ${config.dataDir}.`);
        }
        hasJoined = true;
        away = "";
        return;
      }
      case "away":
        if (event.reason === away) return;
        away = event.reason;
        progress?.done();
        return line(
          `The platform does not answer (${away.replace(/\.$/, "")}): ${hasJoined ? "workers go on, " : ""}it is dialled again`,
        );
      case "preparing":
        return line(`Prepares ${event.endpoint}`);
      case "prepared":
        return line(`Prepared ${event.endpoint} in ${formatDuration(event.ms)}`);
      case "unprepared":
        return line(`Could not prepare ${event.endpoint}: ${event.reason}`);
      case "started":
        return line(`Started worker ${event.worker}${of(event.endpoint)}`);
      case "ended":
        return line(`Ended worker ${event.worker}${of(event.endpoint)}: ${event.reason}`);
      case "leaving":
        return line(
          event.workers === 0
            ? "Leaves the platform"
            : `Leaves: ${counted(event.workers)} may finish within ${event.graceMs / 1000} s. Ctrl+C again ends them now`,
        );
      case "warning":
        progress?.done();
        return terminal.warn(event.help === undefined ? event.message : `${event.message} ${event.help}`);
    }
  };
}

const counted = (workers: number) => (workers === 1 ? "1 worker" : `${workers} workers`);
const of = (endpoint: string) => (endpoint === "" ? "" : ` of ${endpoint}`);
