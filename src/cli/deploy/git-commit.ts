import { runProcess } from "../../lib/run-process.ts";

/** Nothing that a repository's own configuration names is run. */
const PLUMBING = ["-c", "core.fsmonitor=false"];
const GIT_MAX_MS = 2_000;

/** The commit that a folder's files are at, with `-dirty` when they differ; "" where there is none, or no git. */
export async function gitCommit(cwd: string, env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const signal = AbortSignal.timeout(GIT_MAX_MS);
  const git = (...args: string[]) => runProcess("git", [...PLUMBING, ...args], { cwd, env, signal });
  try {
    const [head, changed] = await Promise.all([
      git("rev-parse", "--short=10", "HEAD"),
      git("diff-files", "--name-only"),
    ]);
    if (head.code !== 0) return "";
    return `${head.stdout.trim()}${changed.stdout === "" ? "" : "-dirty"}`;
  } catch {
    return "";
  }
}
