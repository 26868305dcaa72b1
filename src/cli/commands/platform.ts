/** `svc platform`: the platform of this machine. Its code loads when one is started here. */
import { createReadStream, type Stats, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import { SvcError } from "../../domain/errors.ts";
import { GATEWAYS_MAX } from "../../domain/limits.ts";
import { command, group, jsonFlag, switchFlag, valueFlag, wholeNumber } from "../command.ts";
import { clockTime, dateTime, formatAge } from "../format.ts";
import { dataDir as directoryOf } from "../paths.ts";
import { countOutsideHeap, takeNodeFlags } from "../platform/node-flags.ts";
import { livingPlatform, logPath, type PlatformRecord, runningPlatform } from "../platform/record.ts";
import { askReplicas, replicaLines } from "../platform/replicas.ts";
import { stopPlatform } from "../platform/stop.ts";
import { backupCommand, restoreCommand } from "./platform-backup.ts";
import { imagesCommands } from "./platform-images.ts";
import { migrateCommand } from "./platform-migrate.ts";
import { rotateKeyCommand } from "./platform-rotate-key.ts";
import { installServiceCommand } from "./platform-service.ts";

const FOLLOW_POLL_MS = 200;

const dataDir = valueFlag("DIR", "Directory of its data; default: SVC_DATA_DIR or the user's data directory");

const start = command({
  brief: "Start the platform on this machine",
  text: "Starts the platform in the background. The first start makes an API key, stored for you.",
  examples: [
    ["svc platform start", "Start it on port 7878"],
    ["svc platform start --port 0 --emulate-gpu", "Any free port; GPU endpoints run on the CPU"],
    ["svc platform start --driver docker", "Workers run in containers"],
    ["svc platform start --foreground", "For a service manager or a container"],
  ],
  flags: {
    port: valueFlag("N", "Port; 0 takes any free one; default: 7878", wholeNumber(0, 65535)),
    host: valueFlag("ADDRESS", "Address to listen on; default: 127.0.0.1"),
    gateways: valueFlag(
      "N",
      "Processes that take calls, beside the one that has the jobs: for a machine of many cores; default: 0",
      wholeNumber(0, GATEWAYS_MAX),
    ),
    dataDir,
    emulateGpu: switchFlag("Run GPU endpoints on the CPU of a machine without a GPU"),
    durability: {
      kind: "enum",
      values: ["normal", "full"],
      optional: true,
      brief: "normal: accepted jobs survive a crash of the platform; full: also a power loss",
    },
    driver: {
      kind: "enum",
      values: ["process", "docker"],
      optional: true,
      brief: "What workers run in: processes of this machine, or containers of its Docker engine; default: process",
    },
    foreground: switchFlag("Stay in this terminal until Ctrl+C"),
    keyFile: valueFlag("FILE", "In the foreground: write the first API key there instead of printing it"),
    asGateway: { ...switchFlag("Take calls for the platform that started this process"), hidden: true },
    withParent: { ...switchFlag("In the foreground: end when the process that started it does"), hidden: true },
    json: jsonFlag,
  },
  async run(flags) {
    const { terminal } = this;
    if (flags.asGateway) {
      const { runGatewayProcess } = await import("../../server/gateway-process.ts");
      return runGatewayProcess((code) => this.exit(code));
    }
    const options = { ...flags, dataDir: directoryOf(this.env, flags.dataDir) };
    const running = await runningPlatform(options.dataDir);
    if (running !== undefined) {
      if (flags.json) terminal.json({ ...running, started: false, dataDir: options.dataDir });
      else terminal.out(`The platform already runs at ${running.url} (process ${running.pid}).`);
      return;
    }
    if (flags.foreground) {
      takeNodeFlags(this.env);
      countOutsideHeap();
      const { runForeground } = await import("../platform/foreground.ts");
      return runForeground(this, options);
    }
    const { keyNote, startEmbedded } = await import("../platform/start.ts");
    const platform = await startEmbedded(this, options);
    if (flags.json) {
      const { isKeyStored: _, ...facts } = platform;
      terminal.json({ ...facts, dataDir: options.dataDir, log: logPath(options.dataDir) });
      return;
    }
    terminal.out(`URL    ${platform.url}`);
    terminal.out(`Data   ${options.dataDir}`);
    terminal.out(`Log    ${logPath(options.dataDir)}`);
    if (platform.firstKey !== undefined) {
      terminal.out(`Key    ${platform.firstKey}  ${keyNote(platform)}`);
    }
    terminal.out();
    if (options.dataDir !== directoryOf(this.env)) {
      terminal.out(`For other commands: export SVC_DATA_DIR=${options.dataDir}`);
    }
    terminal.out("Next: svc deploy, in a project's directory. Stop the platform with svc platform stop.");
  },
});

/** SIGTERM: finish running work, then end. SIGQUIT: end at once. */
const stop = command({
  brief: "Stop the platform of this machine",
  text: "Lets running work finish, then stops (SIGTERM). With --now it stops at once (SIGQUIT).",
  examples: [
    ["svc platform stop", "Finish running work, then stop"],
    ["svc platform stop --now", "Stop at once"],
  ],
  flags: { now: switchFlag("Do not wait for running work; queued jobs are kept either way"), dataDir },
  async run(flags) {
    const directory = directoryOf(this.env, flags.dataDir);
    const running = await livingPlatform(directory);
    if (running === undefined) {
      const { endLeftWorkers } = await import("../../server/left-workers.ts");
      const hadWorkers = await endLeftWorkers(directory);
      this.terminal.out("No platform runs on this machine.");
      if (hadWorkers)
        this.terminal.out("Its workers had lived on: they are ended. What they ran begins anew at its next start.");
      return;
    }
    await stopPlatform(this, running, { now: flags.now ?? false });
    this.terminal.out("The platform has stopped. Its data is kept; svc platform start goes on from there.");
  },
});

/** Exit code 1 when it does not run, so that scripts can ask. */
const status = command({
  brief: "Say whether the platform runs, and where",
  text: "Exit code 0 when it runs, 1 when it does not.",
  examples: [
    ["svc platform status", "State, address, process and data directory"],
    ["svc platform status --json", "The same for programs"],
  ],
  flags: { json: jsonFlag, dataDir },
  async run(flags) {
    const { terminal } = this;
    const directory = directoryOf(this.env, flags.dataDir);
    const record = await runningPlatform(directory);
    if (record === undefined) this.answerNo();
    const leftWorkers =
      record === undefined && (await import("../../server/left-workers.ts")).hasLeftWorkers(directory);
    const several = record?.replicas === undefined ? undefined : await askReplicas(record.replicas);
    if (flags.json) {
      const { held, replicas } = several ?? {};
      const told = { running: record !== undefined, leftWorkers: leftWorkers || undefined, ...record, replicas, held };
      terminal.json({ ...told, dataDir: directory, log: logPath(directory) });
      return;
    }
    // It may have taken the place of another since it wrote its record.
    const waits = several?.replicas.some(({ id, owns }) => id === several.id && !owns) ?? record?.waits;
    terminal.out(`State    ${record === undefined ? "stopped" : waits ? "waiting" : "running"}`);
    if (record !== undefined) {
      terminal.out(`URL      ${record.url}`);
      terminal.out(
        `Process  ${record.pid}, since ${dateTime(record.startedAt)} (${formatAge(Date.now() - record.startedAt)})`,
      );
      terminal.out(`Version  ${record.version}`);
      if (record.gateways !== undefined) terminal.out(`Gateways ${gatewaysLine(record.gateways)}`);
      for (const pool of record.pools ?? []) terminal.out(`Pool     ${poolLine(pool)}`);
      if (record.database !== undefined) terminal.out(`Database ${record.database}`);
      if (record.commits !== undefined) terminal.out(`Commits  ${record.commits}`);
      if (record.bucket !== undefined) terminal.out(`Bucket   ${record.bucket}`);
      if (record.logs !== undefined) terminal.out(`Logs     ${record.logs}`);
      if (several !== undefined) terminal.out(`Replicas ${replicaLines(several).join("\n         ")}`);
    }
    terminal.out(`Data     ${directory}`);
    terminal.out(`Log      ${logPath(directory)}`);
    if (leftWorkers)
      terminal.note("It was killed; its workers live on for its next start. svc platform stop ends them.");
    if (record === undefined) terminal.note("Start it with svc platform start.");
  },
});

function gatewaysLine({ wanted, pids }: NonNullable<PlatformRecord["gateways"]>): string {
  const count = pids.length === wanted ? String(wanted) : `${pids.length} of ${wanted}`;
  return `${count} (${pids.length === 1 ? "process" : "processes"} ${pids.join(", ")})`;
}

function poolLine({ name, pods, joined, max, trouble }: NonNullable<PlatformRecord["pools"]>[number]): string {
  const counts = `${name}: ${pods} of ${max} Pods, ${joined} joined`;
  return trouble === undefined ? counts : `${counts}; ${trouble}`;
}

const logs = command({
  brief: "Print the platform's log",
  text: "Prints the end of the platform's log: with local times on a terminal, as the file has it (UTC) elsewhere.",
  examples: [
    ["svc platform logs", "The last 200 lines"],
    ["svc platform logs -f -n 0", "What comes from now on"],
  ],
  flags: {
    follow: switchFlag("Go on printing what comes"),
    lines: {
      kind: "parsed",
      parse: wholeNumber(0, 1_000_000),
      default: "200",
      placeholder: "N",
      brief: "Lines from the end",
    },
    dataDir,
  },
  aliases: { f: "follow", n: "lines" },
  async run(flags) {
    const path = logPath(directoryOf(this.env, flags.dataDir));
    const text = await readFile(path).catch((error: NodeJS.ErrnoException) => {
      const message =
        error.code === "ENOENT" ? "There is no platform log yet." : `The log cannot be read: ${error.message}.`;
      throw new SvcError("NOT_FOUND", message, { where: path, help: "Start the platform with svc platform start." });
    });
    const lines = text.toString("utf8").split("\n");
    if (lines.at(-1) === "") lines.pop();
    const shown = this.terminal.isRead ? withLocalTimes : (chunk: string) => chunk;
    for (const line of flags.lines === 0 ? [] : lines.slice(-flags.lines)) this.terminal.out(shown(line));
    if (flags.follow) await follow(path, text.length, (chunk) => this.terminal.write(shown(chunk)));
  },
});

export const platformCommands = group("The platform of this machine", {
  start,
  stop,
  status,
  logs,
  backup: backupCommand,
  restore: restoreCommand,
  "rotate-key": rotateKeyCommand,
  migrate: migrateCommand,
  "install-service": installServiceCommand,
  images: imagesCommands,
});

/** The file has times of UTC at the beginning of its lines: people get those of their clocks. */
function withLocalTimes(text: string): string {
  return text.replace(/^\d{4}-\d\d-\d\dT[\d:]{8}(\.\d{3})Z(?= )/gm, (time, fraction: string) => {
    const at = Date.parse(time);
    return `${dateTime(at).slice(0, 10)} ${clockTime(at)}${fraction}`;
  });
}

/** Prints what is appended, until the process is interrupted. A log that was made anew is read from its start. */
function follow(path: string, from: number, print: (chunk: string) => void): Promise<never> {
  let position = from;
  let reading: Promise<void> = Promise.resolve();
  const readOn = async (size: number) => {
    if (size < position) position = 0;
    if (size === position) return;
    const stream = createReadStream(path, { start: position, end: size - 1, encoding: "utf8" });
    position = size;
    for await (const chunk of stream) print(chunk as string);
  };
  watchFile(path, { interval: FOLLOW_POLL_MS }, (now: Stats) => {
    reading = reading.then(() => readOn(now.size)).catch(() => {});
  });
  return new Promise(() => {});
}
