/**
 * Entry of the command line. Start-up time is a promise: `--version` and a bare `svc` load nothing but this file,
 * every other command loads its own code only.
 */
import { enableCompileCache } from "node:module";
import { join } from "node:path";
import { VERSION } from "../domain/version.ts";
import { makeFolder } from "../lib/make-folder.ts";

/** Resolves with the exit code: 0 done, 1 failed, 2 wrong use. */
export async function main(argv: readonly string[]): Promise<number> {
  if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-v" || argv[0] === "version")) {
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  // Node would open its debugger to every program of this machine, workers among them.
  if (!process.execArgv.includes("--disable-sigusr1")) process.on("SIGUSR1", () => {});
  (await import("./home.ts")).settleHome(process.env);
  const { cacheDir } = await import("./paths.ts");
  cacheCompiledCode(join(cacheDir(process.env), "compiled"));
  const { runCli } = await import("./app.ts");
  return runCli(argv, { env: process.env, exit: (code) => process.exit(code) });
}

/** Where it cannot be written, start-up takes longer, and nothing else. */
function cacheCompiledCode(folder: string): void {
  try {
    makeFolder(folder); // Node's own way never returns from some that cannot be made.
    enableCompileCache(folder);
  } catch {
    // Said above.
  }
}
