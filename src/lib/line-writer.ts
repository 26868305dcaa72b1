import { writeSync } from "node:fs";

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
