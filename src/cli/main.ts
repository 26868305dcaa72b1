/**
 * Entry of the command line. Start-up time is a promise: `--version` and a bare `svc` load nothing but this file,
 * every other command loads its own code only.
 */
import { VERSION } from "../domain/version.ts";

/** Resolves with the exit code: 0 done, 1 failed, 2 wrong use. */
export async function main(argv: readonly string[]): Promise<number> {
  if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-v" || argv[0] === "version")) {
    process.stdout.write(`${VERSION}\n`);
    return 0;
  }
  // Node would open its debugger to every program of this machine, workers among them.
  if (!process.execArgv.includes("--disable-sigusr1")) process.on("SIGUSR1", () => {});
  (await import("./home.ts")).settleHome(process.env);
  (await import("./paths.ts")).cacheCompiledCode(process.env);
  const { runCli } = await import("./app.ts");
  return runCli(argv, { env: process.env, exit: (code) => process.exit(code) });
}
