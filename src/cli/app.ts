/** The application: which commands there are, and how their errors are worded. Only the called command's file is loaded. */

import { readdir } from "node:fs/promises";
import {
  type Application,
  buildApplication,
  buildRouteMap,
  ExitCode,
  proposeCompletions,
  type RouteMap,
  run,
  text_en,
} from "@stricli/core";
import { ERROR_CATALOGUE, type ErrorCode, SvcError } from "../domain/errors.ts";
import { terminalText } from "../lib/terminal-text.ts";
import type { Route } from "./command.ts";
import type { CliContext } from "./context.ts";
import { exitCodeOf, formatError } from "./format-error.ts";
import { helpPage } from "./help-page.ts";
import { Interrupt } from "./interrupt.ts";
import { Terminal } from "./terminal.ts";
import { argumentMessage, typedCommand, unknownCommandMessage } from "./usage-messages.ts";

const COMMANDS: Readonly<Record<string, Readonly<Record<string, () => Promise<Route>>>>> = {
  Start: {
    init: async () => (await import("./commands/init.ts")).initCommand,
    login: async () => (await import("./commands/login.ts")).loginCommand,
    logout: async () => (await import("./commands/login.ts")).logoutCommand,
    whoami: async () => (await import("./commands/login.ts")).whoamiCommand,
  },
  Develop: {
    run: async () => (await import("./commands/run.ts")).runCommand,
    build: async () => (await import("./commands/build.ts")).buildCommand,
    types: async () => (await import("./commands/types.ts")).typesCommand,
  },
  Deploy: {
    deploy: async () => (await import("./commands/deploy.ts")).deployCommand,
    rollback: async () => (await import("./commands/rollback.ts")).rollbackCommand,
    undeploy: async () => (await import("./commands/undeploy.ts")).undeployCommand,
  },
  "Call and look": {
    call: async () => (await import("./commands/call.ts")).callCommand,
    url: async () => (await import("./commands/url.ts")).urlCommand,
    console: async () => (await import("./commands/console.ts")).consoleCommand,
    status: async () => (await import("./commands/status.ts")).statusCommand,
    top: async () => (await import("./commands/top.ts")).topCommand,
    logs: async () => (await import("./commands/logs.ts")).logsCommand,
    jobs: async () => (await import("./commands/jobs.ts")).jobsCommands,
    schedule: async () => (await import("./commands/schedule.ts")).scheduleCommands,
  },
  Manage: {
    env: async () => (await import("./commands/environments.ts")).environmentCommands,
    app: async () => (await import("./commands/environments.ts")).appCommands,
    secret: async () => (await import("./commands/secret.ts")).secretCommands,
    volume: async () => (await import("./commands/volume.ts")).volumeCommands,
    key: async () => (await import("./commands/key.ts")).keyCommands,
    host: async () => (await import("./commands/host.ts")).hostCommands,
    alert: async () => (await import("./commands/alert.ts")).alertCommands,
    audit: async () => (await import("./commands/audit.ts")).auditCommand,
    worker: async () => (await import("./commands/worker.ts")).workerCommands,
    platform: async () => (await import("./commands/platform.ts")).platformCommands,
  },
  "This program": {
    help: async () => (await import("./commands/help.ts")).helpCommand,
    upgrade: async () => (await import("./commands/upgrade.ts")).upgradeCommand,
    completions: async () => (await import("./commands/completions.ts")).completionsCommand,
    version: async () => (await import("./commands/version.ts")).versionCommand,
  },
};
const LOADERS = Object.assign({}, ...Object.values(COMMANDS)) as Record<string, () => Promise<Route>>;

/** Every command for the overview and for a wrong word; else the one that is called. */
export async function commandsFor(word: string | undefined): Promise<Root> {
  const known = word !== undefined && Object.hasOwn(LOADERS, word);
  const names = known ? [word] : Object.keys(LOADERS);
  const routes = await Promise.all(names.map(async (name) => [name, await LOADERS[name]!()] as const));
  const commands = Object.fromEntries(routes);
  const docs = { brief: OVERVIEW.brief };
  return Object.assign(buildRouteMap<string, CliContext>({ routes: commands, docs }), { commands, page: OVERVIEW });
}

type Root = RouteMap<CliContext> & Route & { readonly commands: Readonly<Record<string, Route>> };

const OVERVIEW = {
  brief: "A Python function becomes an autoscaled HTTP endpoint.",
  text: "A Python function becomes an autoscaled HTTP endpoint, on your own machines.",
  examples: [
    ["svc init my-project", "Start a project from working examples"],
    ["svc run", "Try its functions on a local address"],
    ["svc deploy", "Put the endpoints of this directory live"],
    ["svc undeploy --all", "Take this directory's endpoints down"],
    ["svc help COMMAND", "Explain a command"],
  ],
  words: [],
  flags: [{ names: "-v, --version", brief: "Print the version" }],
} as const;

/** The words of a call for help: those behind `help`, or before `--help`; undefined for any other call. */
function askedAbout(argv: readonly string[]): readonly string[] | undefined {
  if (argv[0] === "help" && argv[1] !== "--help" && argv[1] !== "-h") return argv.slice(1);
  const own = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
  const at = own.findIndex((word) => word === "--help" || word === "-h");
  return at < 0 ? undefined : own.slice(0, at);
}

/** Of the longest start of `words` that names a command. */
async function showHelp(terminal: Terminal, words: readonly string[]): Promise<void> {
  const root = await commandsFor(words[0]);
  const typed = typedCommand(root, words);
  let route: Route = root;
  for (const word of typed.split(" ").slice(1)) route = route.commands![word]!;
  const entries = (names: readonly string[], from: Readonly<Record<string, Route>>) =>
    names.map((name) => [name, from[name]!.page.brief] as const);
  const groups =
    route === root
      ? Object.entries(COMMANDS).map(([title, some]) => ({
          title,
          commands: entries(Object.keys(some), root.commands),
        }))
      : route.commands === undefined
        ? []
        : [{ title: "Commands", commands: entries(Object.keys(route.commands), route.commands) }];
  terminal.out(helpPage(typed, route.page, groups, terminal.columns));
}

export async function runCli(
  argv: readonly string[],
  { env, exit }: Pick<CliContext, "env" | "exit">,
): Promise<number> {
  const terminal = new Terminal(process, env, exit);
  const cwd = currentFolder();
  if (cwd === undefined) {
    terminal.note(formatError(FOLDER_GONE, terminal.errColors, false));
    return 1;
  }
  if (argv.length === 0) {
    await welcome(terminal, cwd);
    return 0;
  }
  const outcome: { stdout: NodeJS.WriteStream; stderr: NodeJS.WriteStream; exitCode?: number | string | null } = {
    stdout: process.stdout,
    stderr: process.stderr,
  };
  let no = false;
  const context: CliContext = {
    process: outcome,
    terminal,
    env,
    exit,
    interrupt: new Interrupt(terminal, exit),
    cwd,
    answerNo: () => {
      no = true;
    },
  };
  const about = askedAbout(argv);
  if (about !== undefined && argv[0] !== "__complete") {
    const first = about.find((word) => !word.startsWith("-"));
    if (first !== undefined && Object.hasOwn(ERROR_CATALOGUE, first)) {
      terminal.out((await import("./commands/help.ts")).errorHelp(first as ErrorCode, terminal.columns));
      return 0;
    }
    if (first === undefined || Object.hasOwn(LOADERS, first)) {
      await showHelp(terminal, about);
      return 0;
    }
  }
  const completes = argv[0] === "__complete";
  const called = about ?? argv;
  const words = completes ? argv.slice(1) : called;
  // The word that is still being typed is not called yet.
  const root = await commandsFor(completes && words.length < 2 ? undefined : words[0]);
  const app = application(root, terminal, env.SVC_DEBUG === "1", called);
  if (completes) terminal.write(await completionLines(app, words, context));
  else await run(app, called, context);
  return exitCode(Number(outcome.exitCode ?? 0)) || Number(no);
}

/** Undefined when it was removed while the shell stood in it. */
function currentFolder(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined;
  }
}
const FOLDER_GONE = new SvcError("NOT_FOUND", "The folder that svc was called in does not exist any more.", {
  help: "Change into another one: cd FOLDER. One that was made anew has to be entered again.",
});

function application(root: Root, terminal: Terminal, debug: boolean, argv: readonly string[]) {
  const colors = terminal.errColors;
  const misused = (message: string) => `${colors.red("error:")} ${message}\n  Run ${typedCommand(root, argv)} --help.`;
  const failed = (error: unknown) => terminalText(formatError(error, colors, debug));
  return buildApplication(root, {
    name: "svc",
    scanner: { caseStyle: "allow-kebab-for-camel", allowArgumentEscapeSequence: true },
    documentation: { disableAnsiColor: true, onlyRequiredInUsageLine: true, useAliasInUsageLine: false },
    determineExitCode: exitCodeOf,
    localization: {
      text: {
        ...text_en,
        noCommandRegisteredForInput: ({ input }) => misused(unknownCommandMessage(root, argv, input)),
        exceptionWhileParsingArguments: (error) => misused(argumentMessage(error)),
        exceptionWhileRunningCommand: failed,
        exceptionWhileLoadingCommandFunction: failed,
        exceptionWhileLoadingCommandContext: failed,
        commandErrorResult: failed,
      },
    },
  });
}

function exitCode(code: number): number {
  if (code === ExitCode.InvalidArgument || code === ExitCode.UnknownCommand) return 2;
  return code === 0 || code === 2 ? code : 1;
}

/**
 * The answer to a shell's Tab: lines of completion, tab, description for the last of `words`, which is still being typed ("" when it is new).
 * Whatever goes wrong, it says nothing: a prompt is no place for it.
 */
async function completionLines(
  application: Application<CliContext>,
  words: readonly string[],
  context: CliContext,
): Promise<string> {
  const found = await proposeCompletions(application, words, context).catch(() => []);
  // Flags only behind a dash: they would stand in the way of file names, and an only one would be typed unasked.
  const useful = found.filter(({ kind }) => kind !== "argument:flag" || words.at(-1)?.startsWith("-"));
  return useful
    .filter(({ completion }) => completion !== "--")
    .map(({ completion, brief }) => `${completion}\t${brief.split("\n")[0]}\n`)
    .join("");
}

/** What a bare `svc` says: the next step from here. */
async function welcome(terminal: Terminal, directory: string): Promise<void> {
  const hasPython = (await readdir(directory).catch(() => [])).some((name) => name.endsWith(".py"));
  const steps: [command: string, meaning: string][] = hasPython
    ? [
        ["svc deploy", "Put the endpoints of this directory live"],
        ["svc status", "See what runs"],
        ["svc undeploy --all", "Take them down again"],
      ]
    : [
        ["svc init my-project", "Start a project from working examples"],
        ["cd my-project", ""],
        ["svc deploy", "Put its endpoints live"],
      ];
  const { bold, dim } = terminal.colors;
  terminal.out(bold("svc: a Python function becomes an autoscaled HTTP endpoint"));
  terminal.out();
  terminal.out("What to do next:");
  for (const [command, meaning] of steps) terminal.out(`  ${command.padEnd(22)}${dim(meaning)}`.trimEnd());
  terminal.out();
  terminal.out("All commands: svc --help");
}
