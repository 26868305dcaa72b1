/** A command in a real pseudo-terminal: what a person sees and types. Python's pty makes it. */
import { spawn } from "node:child_process";
import type { Writable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { onPath } from "../../src/lib/on-path.ts";

const RELAY = `
import fcntl, os, pty, select, struct, sys, termios
columns, rows, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
pid, master = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
inputs = [master, 0, 3]
while True:
    for descriptor in select.select(inputs, [], [])[0]:
        try:
            data = os.read(descriptor, 65536)
        except OSError:
            data = b""
        if descriptor == master and not data:
            _, status = os.waitpid(pid, 0)
            sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
        if descriptor != master and not data:
            inputs.remove(descriptor)
            continue
        if descriptor == 3:
            columns, rows = data.decode().split("\\n")[-2].split()
            fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", int(rows), int(columns), 0, 0))
            continue
        os.write(1 if descriptor == master else master, data)
`;

export interface PseudoTerminal {
  /** Everything shown so far, as the command wrote it. */
  readonly raw: string;
  /** The same without escape sequences. */
  readonly text: string;
  type(keys: string): void;
  /** The window gets another size. */
  resize(columns: number, rows: number): void;
  /** Resolves when `pattern` was shown; rejects when the command ends without it. */
  shows(pattern: RegExp): Promise<void>;
  /** Resolves the exit code; 128 and more: the signal that ended it. */
  readonly ended: Promise<number>;
  /** Ends the command if it runs still. */
  close(): void;
}

/** The screen is shown with the failure then, before the test's own time is over. */
const PATIENCE_MS = 120_000;

export const CTRL_C = "\x03";
export const CTRL_D = "\x04";

export function openPseudoTerminal(
  command: readonly string[],
  options: { cwd: string; env: Readonly<Record<string, string>>; columns?: number; rows?: number },
): PseudoTerminal {
  const { columns = 80, rows = 24, cwd } = options;
  const python = onPath("python3", process.env.PATH ?? "") ?? "python3";
  const size = [String(columns), String(rows)];
  const env = { TERM: "xterm-256color", ...options.env };
  const child = spawn(python, ["-I", "-c", RELAY, ...size, ...command], {
    cwd,
    env,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  let raw = "";
  let over = false;
  const watchers = new Set<() => void>();
  const changed = () => {
    for (const watcher of watchers) watcher();
  };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    raw += chunk;
    changed();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    raw += chunk;
  });
  child.stdin.on("error", () => {});
  const ended = new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      over = true;
      resolve(code ?? -1);
      changed();
    });
  });
  const text = () => stripVTControlCharacters(raw).replaceAll("\r\n", "\n");
  return {
    get raw() {
      return raw;
    },
    get text() {
      return text();
    },
    type: (keys) => void child.stdin.write(keys),
    resize: (columns, rows) => void (child.stdio[3] as Writable).write(`${columns} ${rows}\n`),
    shows: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (pattern.test(text())) resolve();
          else if (over || late)
            reject(new Error(`It ${over ? "ended and" : "waits and has"} never showed ${pattern}:\n${text()}`));
          else return;
          clearTimeout(patience);
          watchers.delete(look);
        };
        let late = false;
        const patience = setTimeout(() => {
          late = true;
          look();
        }, PATIENCE_MS);
        watchers.add(look);
        look();
      }),
    ended,
    close: () => void child.kill("SIGTERM"),
  };
}
