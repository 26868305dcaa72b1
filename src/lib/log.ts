import { writeSync } from "node:fs";

/** Log lines for operators: one line each on stderr, `time level message key=value …`. */
export interface Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export function createLog(write: (line: string) => void, clock: () => Date): Log {
  const line = (level: string, message: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const pairs = given.map(([key, value]) => ` ${key}=${shown(value)}`);
    write(`${clock().toISOString()} ${level} ${message}${pairs.join("")}\n`);
  };
  return {
    info: (message, fields) => line("info", message, fields),
    error: (message, fields) => line("error", message, fields),
  };
}

function shown(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(value.stack ?? value.message);
  return typeof value === "string" && /^[\w./:-]+$/.test(value) ? value : JSON.stringify(value);
}

/**
 * Writes lines to a file descriptor. What cannot be written now, as on a full disk, goes before the next line that can;
 * beyond `backlogMaxBytes` the oldest of it is dropped. Never throws.
 */
export function lineWriter(fd: number, backlogMaxBytes: number): (line: string) => void {
  let backlog: Buffer[] = [];
  let bytes = 0;
  return (line) => {
    const added = Buffer.from(line);
    backlog.push(added);
    bytes += added.length;
    while (bytes > backlogMaxBytes && backlog.length > 1) bytes -= backlog.shift()!.length;
    try {
      while (backlog.length > 0) {
        const written = writeSync(fd, backlog[0]!);
        bytes -= written;
        if (written < backlog[0]!.length) backlog[0] = backlog[0]!.subarray(written);
        else backlog.shift();
      }
    } catch (error) {
      // A reader that is gone for good will read nothing later either.
      if ((error as NodeJS.ErrnoException).code === "EPIPE") [backlog, bytes] = [[], 0];
    }
  };
}
