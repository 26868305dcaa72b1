/** A disk that lost what it was given: all of a database but its first page, which says that it is one. */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, openSync, writeSync } from "node:fs";

const PAGE_BYTES = 4096;

export function damage(database: string): void {
  const file = openSync(database, "r+");
  try {
    const length = fstatSync(file).size - PAGE_BYTES;
    writeSync(file, randomBytes(length), 0, length, PAGE_BYTES);
  } finally {
    closeSync(file);
  }
}
