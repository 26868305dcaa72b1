/** How a campaign gives a platform its code. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runProcess } from "../../src/lib/run-process.ts";
import { SVC } from "../program.ts";

interface Target {
  /** Where the platform is, or what leads to it. */
  readonly url: string;
  readonly key: string;
  /** For the project and what the command keeps. */
  readonly dir: string;
}

/** For a query of GraphQL. */
export const ENDPOINTS = "{ myself { endpoints { name url } } }";

/** Deploys files, by their names, as the app "campaign"; the exit code and what was printed. */
export async function deploy(to: Target, files: Readonly<Record<string, string>>, signal?: AbortSignal) {
  const project = mkdtempSync(path.join(to.dir, "project-"));
  for (const [file, text] of Object.entries(files)) writeFileSync(path.join(project, file), text);
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    CI: "1",
    PLATFORM_URL: to.url,
    PLATFORM_API_KEY: to.key,
    SVC_CONFIG_DIR: path.join(to.dir, "config"),
    SVC_CACHE_DIR: path.join(to.dir, "cache"),
  };
  try {
    return await runProcess(SVC, ["deploy", "--app", "campaign"], { cwd: project, env, signal });
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

/** Paths of the endpoints by their names, of the answer to `ENDPOINTS`. */
export function endpointPaths(answer: { data: { myself: { endpoints: { name: string; url: string }[] } } }) {
  const { endpoints } = answer.data.myself;
  return Object.fromEntries(endpoints.map(({ name, url }) => [name, new URL(url).pathname]));
}
