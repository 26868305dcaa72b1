/**
 * Logs of what a test starts, platforms above all. The runner names a folder for them, outside of the test's own folders: a
 * test that fails, or a file that is killed, prints what was last written to them.
 */
import { appendFileSync, existsSync, globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";

const LINES_SHOWN = 40;
const BYTES_READ_MAX = 64 * 1024;
let made = 0;

/** What takes the log's text as it comes. Nothing is kept where no runner asked for it. */
export function testLog(name: string): (text: string) => void {
  const folder = process.env.SVC_TEST_LOGS;
  if (folder === undefined) return () => {};
  const file = path.join(folder, `${name}-${process.pid}-${++made}.log`);
  return (text) => {
    // A process may outlive the run that made the folder.
    if (existsSync(folder)) appendFileSync(file, text);
  };
}

/** Keeps the log that a program wrote to a file of the test's own before that goes away. */
export function keepLog(file: string): void {
  const folder = process.env.SVC_TEST_LOGS;
  if (folder === undefined || !existsSync(file)) return;
  writeFileSync(path.join(folder, `${path.basename(file, ".log")}-${process.pid}-${++made}.log`), lastBytes(file));
}

/** The last lines of all logs that were written within so many milliseconds; those of `folders` too. */
export function recentLogs(withinMs: number, folders: readonly string[] = [process.env.SVC_TEST_LOGS ?? ""]): string {
  const since = Date.now() - withinMs - 1000;
  const files = folders
    .filter((folder) => folder !== "")
    .flatMap((folder) => globSync("**/*.log", { cwd: folder }).map((file) => path.join(folder, file)))
    .map((file) => ({ file, at: statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .filter(({ at }) => at >= since)
    .sort((a, b) => a.at - b.at);
  return files
    .slice(-6)
    .map(({ file }) => ({ file, text: lastBytes(file).trimEnd().split("\n").slice(-LINES_SHOWN).join("\n") }))
    .filter(({ text }) => text !== "")
    .map(({ file, text }) => `${path.basename(file)}:\n${text}`)
    .join("\n");
}

function lastBytes(file: string): string {
  try {
    return readFileSync(file, "utf8").slice(-BYTES_READ_MAX);
  } catch {
    return ""; // Gone, or not for this user.
  }
}
