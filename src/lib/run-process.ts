import { type ChildProcess, spawn } from "node:child_process";

const KILL_GRACE_MS = 3_000;

export interface ProcessOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string | Uint8Array;
  /** Stops the program: SIGTERM, and SIGKILL when that does not help. */
  readonly signal?: AbortSignal;
  /** The program starts others, which have to stop with it. It then gets no Ctrl-C from the terminal: use `signal`. */
  readonly group?: boolean;
  /** Each line of stdout and stderr as it comes. */
  readonly onLine?: (line: string) => void;
}

export interface ProcessResult {
  /** null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end and keeps what it printed. Rejects when it cannot start, or once it has ended after `signal`. */
export function runProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<ProcessResult> {
  const { signal, group = false } = options;
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv | undefined,
      detached: group,
      stdio: ["pipe", "pipe", "pipe"],
    });
    child.on("error", reject);
    // Without a free descriptor there are no pipes either.
    if (child.stdout === undefined) return;
    const stop = () => {
      end(child, group, "SIGTERM");
      setTimeout(() => end(child, group, "SIGKILL"), KILL_GRACE_MS).unref();
    };
    signal?.addEventListener("abort", stop, { once: true });
    const collect = (stream: NodeJS.ReadableStream) => {
      const collected = { text: "" };
      let rest = "";
      stream.setEncoding("utf8");
      stream.on("data", (chunk: string) => {
        collected.text += chunk;
        if (options.onLine === undefined) return;
        const lines = (rest + chunk).split("\n");
        rest = lines.pop()!;
        for (const line of lines) options.onLine(line);
      });
      return collected;
    };
    const stdout = collect(child.stdout);
    const stderr = collect(child.stderr);
    child.on("exit", () => signal?.aborted && reject(signal.reason));
    child.on("close", (code) => {
      signal?.removeEventListener("abort", stop);
      resolve({ code, stdout: stdout.text, stderr: stderr.text });
    });
    // A program that ends before it has read its input is judged by its exit code.
    child.stdin.on("error", () => {});
    child.stdin.end(options.input ?? "");
  });
}

function end(child: ChildProcess, group: boolean, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(group ? -child.pid : child.pid, signal);
  } catch {
    // It ended in this moment.
  }
}
