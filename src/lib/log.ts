import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { Socket } from "node:net";

/** What could not be written is tried again so often. */
const WRITE_AGAIN_MS = 250;
const UNWAITING = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

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
 * Writes lines to a file descriptor, and never waits: not for a reader that stands still (a log collector, a terminal after Ctrl+S), not for
 * room on a disk. What cannot be written now comes before what can be written later; beyond `backlogMaxBytes` the oldest of it is dropped.
 * Never throws.
 */
export function lineWriter(fd: number, backlogMaxBytes: number): (line: string) => void {
  const output = unwaiting(fd);
  const backlog: Buffer[] = [];
  let bytes = 0;
  /** A part of the first is written. */
  let isBegun = false;
  let again: NodeJS.Timeout | undefined;
  const writeOut = () => {
    clearTimeout(again);
    try {
      while (backlog.length > 0) {
        const written = writeSync(output, backlog[0]!);
        bytes -= written;
        isBegun = written < backlog[0]!.length;
        if (isBegun) backlog[0] = backlog[0]!.subarray(written);
        else backlog.shift();
      }
    } catch (error) {
      // A reader that is gone for good will read nothing later either.
      if ((error as NodeJS.ErrnoException).code === "EPIPE") {
        backlog.length = bytes = 0;
        isBegun = false;
      } else again = setTimeout(writeOut, WRITE_AGAIN_MS).unref();
    }
  };
  return (line) => {
    const added = Buffer.from(line);
    backlog.push(added);
    bytes += added.length;
    const kept = isBegun ? 1 : 0;
    while (bytes > backlogMaxBytes && backlog.length > kept + 1) bytes -= backlog.splice(kept, 1)[0]!.length;
    writeOut();
  };
}

/** The same output by a descriptor that does not wait: it is this process's own where there can be one, as others may share what was inherited. */
function unwaiting(fd: number): number {
  try {
    const kind = fstatSync(fd);
    if (kind.isFIFO() || kind.isCharacterDevice()) return openSync(`/proc/self/fd/${fd}`, UNWAITING);
  } catch {} // It is as it is: what is written there may have to wait.
  keepUnwaiting(fd);
  return fd;
}

/** To be called also after each start of a process that has this as its output: a socket is one for all who share it, and such a start makes it wait again. */
export function keepUnwaiting(fd: number): void {
  try {
    if (fstatSync(fd).isSocket()) new Socket({ fd, readable: false }).unref();
  } catch {} // It is closed.
}
