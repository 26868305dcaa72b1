/** A root file system as a tar stream. The program `tar` makes it: owners, hard links and devices are its trade. */
import { spawn } from "node:child_process";
import { PassThrough, type Readable } from "node:stream";
import { SvcError } from "../../domain/errors.ts";

const LEFT_OUT = ["./proc/*", "./sys/*", "./dev/*", "./var/cache/apt/archives/*", "./var/lib/apt/lists/*"];

export function packFolder(dir: string): Readable {
  const excludes = LEFT_OUT.flatMap((pattern) => ["--exclude", pattern]);
  const child = spawn("tar", ["-C", dir, "--one-file-system", "--numeric-owner", ...excludes, "-c", "."], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-2000);
  });
  const stream = new PassThrough();
  child.stdout.pipe(stream, { end: false });
  child.on("error", (error) => {
    stream.destroy(new SvcError("TOOL_MISSING", `The program tar cannot be run: ${error.message}.`));
  });
  child.on("close", (code) => {
    // A file that changed meanwhile is code 1; a live system always has some.
    if (code === 0 || code === 1) stream.end();
    else stream.destroy(new Error(said.trim().split("\n").at(-1) ?? `tar ended with code ${code}`));
  });
  return stream;
}
