import { createReadStream, type Stats, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import { SvcError } from "../../domain/errors.ts";
import type { CliContext } from "../context.ts";
import { dataDir } from "../paths.ts";
import { logPath } from "../platform/record.ts";

const FOLLOW_POLL_MS = 200;

interface LogsFlags {
  readonly follow?: boolean;
  readonly lines: number;
  readonly dataDir?: string;
}

export async function logs(this: CliContext, flags: LogsFlags): Promise<void> {
  const path = logPath(dataDir(this.env, flags.dataDir));
  const text = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    const message =
      error.code === "ENOENT" ? "There is no platform log yet." : `The log cannot be read: ${error.message}.`;
    throw new SvcError("NOT_FOUND", message, { where: path, help: "Start the platform with svc platform start." });
  });
  const lines = text.toString("utf8").split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of flags.lines === 0 ? [] : lines.slice(-flags.lines)) this.terminal.out(line);
  if (flags.follow) await follow(path, text.length, (chunk) => this.terminal.write(chunk));
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
