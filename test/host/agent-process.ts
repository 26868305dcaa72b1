/** `svc worker join` as a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { testLog } from "../harness/test-logs.ts";
import { endOf } from "../process-end.ts";
import { programFor } from "../program.ts";

export class AgentProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  stdout = "";
  stderr = "";

  /** In the network namespace `netns`, if one is named. */
  constructor(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}, netns = "") {
    const own = { ...process.env, ...env };
    const command = [...(netns === "" ? [] : ["ip", "netns", "exec", netns]), process.execPath];
    this.child = spawn(command[0]!, [...command.slice(1), programFor(own), "worker", "join", ...args], {
      env: own,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const kept = testLog("agent");
    this.child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      kept(text);
    });
    this.child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      kept(text);
    });
    this.ended = endOf(this.child);
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Ends it with all it runs. */
  async end(): Promise<void> {
    if (!this.isAlive) return;
    const again = setInterval(() => this.child.kill("SIGTERM"), 200);
    this.child.kill("SIGTERM");
    await this.ended.finally(() => clearInterval(again));
  }

  /** Resolves the code. */
  async signal(name: NodeJS.Signals): Promise<number | null> {
    this.child.kill(name);
    return this.ended;
  }
}
