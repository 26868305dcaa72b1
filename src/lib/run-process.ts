import { spawn } from "node:child_process";

export interface ProcessOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly input?: string | Uint8Array;
  readonly signal?: AbortSignal;
  /** Each line of stdout and stderr as it comes. */
  readonly onLine?: (line: string) => void;
}

export interface ProcessResult {
  /** null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end and keeps what it printed. Rejects when it cannot start or `signal` aborts. */
export function runProcess(
  command: string,
  args: readonly string[],
  options: ProcessOptions = {},
): Promise<ProcessResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env as NodeJS.ProcessEnv | undefined,
      signal: options.signal,
      stdio: ["pipe", "pipe", "pipe"],
    });
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
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, stdout: stdout.text, stderr: stderr.text }));
    // A program that ends before it has read its input is judged by its exit code.
    child.stdin.on("error", () => {});
    child.stdin.end(options.input ?? "");
  });
}
