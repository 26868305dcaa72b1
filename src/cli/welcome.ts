import { readdir } from "node:fs/promises";
import type { Terminal } from "./terminal.ts";

/** What a bare `svc` says: the next step from here. */
export async function welcome(terminal: Terminal, directory: string): Promise<void> {
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
