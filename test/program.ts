/** svc as tests start it in a process of its own. */
import path from "node:path";

const ROOT = path.resolve(import.meta.dirname, "..");

/** What Node is given where a test of the whole starts svc: what the runner made of the sources (make-program.ts), or else the sources. */
export const PROGRAM = process.env.SVC_TEST_PROGRAM ?? path.join(ROOT, "bin/svc.ts");

/** A folder for a search path: its `svc` is that program. */
export const BIN = path.dirname(PROGRAM);

/** That command. */
export const SVC = path.join(BIN, "svc");

/**
 * The same for a process with this environment, which may name another one. What is preloaded changes modules, which the sources
 * alone have.
 */
export function programFor(env: Readonly<Record<string, string | undefined>>): string {
  const { NODE_OPTIONS = "", SVC_TEST_PROGRAM = PROGRAM } = env;
  return NODE_OPTIONS.includes("--import") ? path.join(ROOT, "bin/svc.ts") : SVC_TEST_PROGRAM;
}

/** For an otherwise clean environment: code that earlier processes compiled is not compiled anew for each test. */
export const COMPILED: Readonly<Record<string, string>> = process.env.NODE_COMPILE_CACHE
  ? { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }
  : {};
