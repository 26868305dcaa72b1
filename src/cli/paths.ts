import { enableCompileCache } from "node:module";
import { join, resolve } from "node:path";
import envPaths from "env-paths";
import { makeFolder } from "../lib/make-folder.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const user = () => envPaths("svc", { suffix: "" });

/** Where the stored login is. SVC_CONFIG_DIR moves it. */
export function configDir(env: Environment): string {
  return env.SVC_CONFIG_DIR ? resolve(env.SVC_CONFIG_DIR) : user().config;
}

/** Everything the embedded platform keeps. A flag beats SVC_DATA_DIR. */
export function dataDir(env: Environment, flag?: string): string {
  const given = flag ?? env.SVC_DATA_DIR;
  return given ? resolve(given) : user().data;
}

/** Built layers, shared by all projects. SVC_CACHE_DIR moves it. */
export function cacheDir(env: Environment): string {
  return env.SVC_CACHE_DIR ? resolve(env.SVC_CACHE_DIR) : user().cache;
}

/** Of what is loaded from here on. Where it cannot be kept, start-up takes longer, and nothing else. */
export function cacheCompiledCode(env: Environment): void {
  const folder = join(cacheDir(env), "compiled");
  try {
    makeFolder(folder); // Node's own way never returns from some that cannot be made.
    enableCompileCache(folder);
  } catch {
    // It is not kept.
  }
}
