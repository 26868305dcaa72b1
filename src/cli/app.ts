/** The application: which commands there are, and how their errors are worded. Each command's code loads when it runs. */
import { buildApplication, buildRouteMap, ExitCode, run, text_en } from "@stricli/core";
import { terminalText } from "../lib/terminal-text.ts";
import { appRoutes } from "./commands/app.ts";
import { buildSpec } from "./commands/build.ts";
import { completionsSpec } from "./commands/completions.ts";
import { deploySpec } from "./commands/deploy.ts";
import { envRoutes } from "./commands/env.ts";
import { initSpec } from "./commands/init.ts";
import { jobsRoutes } from "./commands/jobs.ts";
import { keyRoutes } from "./commands/key.ts";
import { loginSpec, logoutSpec, whoamiSpec } from "./commands/login.ts";
import { logsSpec } from "./commands/logs.ts";
import { platformRoutes } from "./commands/platform.ts";
import { rollbackSpec } from "./commands/rollback.ts";
import { runSpec } from "./commands/run.ts";
import { secretRoutes } from "./commands/secret.ts";
import { statusSpec } from "./commands/status.ts";
import { undeploySpec } from "./commands/undeploy.ts";
import { versionSpec } from "./commands/version.ts";
import { completionLines } from "./complete.ts";
import type { CliContext } from "./context.ts";
import { exitCodeOf, formatError } from "./format-error.ts";
import { Interrupt } from "./interrupt.ts";
import { Terminal } from "./terminal.ts";
import { argumentMessage, typedCommand, unknownCommandMessage } from "./usage-messages.ts";
import { welcome } from "./welcome.ts";

const root = buildRouteMap<string, CliContext>({
  routes: {
    init: initSpec,
    build: buildSpec,
    run: runSpec,
    deploy: deploySpec,
    rollback: rollbackSpec,
    undeploy: undeploySpec,
    status: statusSpec,
    logs: logsSpec,
    jobs: jobsRoutes,
    login: loginSpec,
    logout: logoutSpec,
    whoami: whoamiSpec,
    env: envRoutes,
    app: appRoutes,
    secret: secretRoutes,
    key: keyRoutes,
    platform: platformRoutes,
    completions: completionsSpec,
    version: versionSpec,
  },
  docs: {
    brief: "A Python function becomes an autoscaled HTTP endpoint.",
    fullDescription: [
      "A Python function becomes an autoscaled HTTP endpoint, on your own machines.",
      "",
      "Examples:",
      "  svc init my-project      Start a project from working examples",
      "  svc run                  Try its functions on a local address",
      "  svc deploy               Put the endpoints of this directory live",
      "  svc status               See what runs",
      "  svc undeploy --all       Take this directory's endpoints down",
      "",
      "svc COMMAND --help explains a command.",
    ].join("\n"),
  },
});

export async function runCli(
  argv: readonly string[],
  { env, exit }: Pick<CliContext, "env" | "exit">,
): Promise<number> {
  const terminal = new Terminal(process, env, () => exit(0));
  if (argv.length === 0) {
    await welcome(terminal, process.cwd());
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
    cwd: process.cwd(),
    answerNo: () => {
      no = true;
    },
  };
  const app = application(terminal, env.SVC_DEBUG === "1", argv);
  if (argv[0] === "__complete") {
    terminal.write(await completionLines(app, argv.slice(1), context));
    return 0;
  }
  await run(app, argv, context);
  return exitCode(Number(outcome.exitCode ?? 0)) || Number(no);
}

function application(terminal: Terminal, debug: boolean, argv: readonly string[]) {
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
