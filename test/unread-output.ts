/** A command whose standard output and error are full, and that nobody reads until somebody does: a log collector that stands still, a terminal after Ctrl+S. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { TestContext } from "node:test";
import { onPath } from "../src/lib/on-path.ts";

export type OutputKind = "pipe" | "terminal" | "socket";

const RELAY = `
import os, pty, signal, socket, subprocess, sys
kind, *command = sys.argv[1:]
if kind == "socket":
    ends = socket.socketpair()
    here, there = (end.fileno() for end in ends)
else:
    here, there = os.pipe() if kind == "pipe" else pty.openpty()
os.set_blocking(there, False)
try:
    while os.write(there, b"." * 64):
        pass
except BlockingIOError:
    os.set_blocking(there, True)
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=there, stderr=there)
print(child.pid, flush=True)
os.close(there)
sys.stdin.readline()
try:
    for data in iter(lambda: os.read(here, 65536), b""):
        os.write(1, data)
except OSError:
    pass # The end of a terminal.
sys.stdin.readline()
sys.exit(child.wait())
`;

export interface UnreadCommand {
  readonly pid: number;
  /** From now on it is read. */
  read(): Readable;
  /** Its exit code: once all is read that it and those wrote who have its output. Until it is asked for nobody reaps it, as below the first process of many containers. */
  end(): Promise<number>;
}

export async function runUnread(
  t: TestContext,
  kind: OutputKind,
  command: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<UnreadCommand> {
  const python = onPath("python3", process.env.PATH ?? "") ?? "python3";
  const relay: ChildProcessByStdio<Writable, Readable, null> = spawn(python, ["-I", "-c", RELAY, kind, ...command], {
    ...options,
    stdio: ["pipe", "pipe", "inherit"],
    detached: true,
  });
  const ended = once(relay, "exit").then(([code]) => code as number);
  t.after(async () => {
    if (relay.exitCode === null) process.kill(-relay.pid!, "SIGKILL");
    await ended;
  });
  const [first] = (await once(relay.stdout, "data")) as [Buffer];
  return {
    pid: Number(first.toString("utf8")),
    read: () => {
      relay.stdin.write("\n");
      return relay.stdout;
    },
    end: () => {
      relay.stdin.end("\n");
      return ended;
    },
  };
}
