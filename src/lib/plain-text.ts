import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/**
 * The text of a file that somebody else made. Throws an error with its path and a code, of the system or, for what is no plain file,
 * EFTYPE: a pipe would be waited for without end, and some devices never end.
 */
export function readPlainText(file: string): string {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(descriptor);
    if (stat.isFile()) return readFileSync(descriptor, "utf8");
    const code = stat.isDirectory() ? "EISDIR" : "EFTYPE";
    throw Object.assign(new Error(`${file} is no plain file`), { code, path: file });
  } finally {
    closeSync(descriptor);
  }
}

/** Undefined where there is none to be read. */
export function plainTextIfAny(file: string): string | undefined {
  try {
    return readPlainText(file);
  } catch {
    return undefined;
  }
}
