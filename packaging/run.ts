import path from "node:path";
import { runProcess } from "../src/lib/run-process.ts";

export const ROOT = path.resolve(import.meta.dirname, "..");

/** Resolves what the program prints; throws with all it said when it fails. */
export async function run(command: string, args: readonly string[], cwd = ROOT): Promise<string> {
  const { code, stdout, stderr } = await runProcess(command, args, { cwd, env: process.env });
  if (code !== 0) throw new Error(`${command} ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}
