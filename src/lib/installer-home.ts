/**
 * Where an installer runs that the platform starts by itself: a home of its own, with the user's index settings and nothing
 * else of the user's or the platform's. Its environment is a list of what it needs, not all there is.
 */
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

const PASSED =
  /^(PATH|LANG|LC_.*|TZ|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|PIP_.*|UV_.*)$/;
/** Below the home; what of it is there. */
const SETTINGS = [".netrc", ".pip/pip.conf", ".config/pip/pip.conf", ".config/uv/uv.toml"];

/** Calls `work` with the folder and its environment, and removes the folder. */
export async function inInstallerHome<T>(env: Env, work: (home: string, env: Env) => Promise<T>): Promise<T> {
  const home = await mkdtemp(path.join(tmpdir(), "svc-install-"));
  try {
    const own: Record<string, string | undefined> = Object.fromEntries(
      Object.entries(env).filter(([name]) => PASSED.test(name)),
    );
    if (env.HOME !== undefined) {
      for (const file of SETTINGS) await copySettings(env, file, home);
      // A pip that was installed for this user alone.
      own.PYTHONUSERBASE = env.PYTHONUSERBASE ?? path.join(env.HOME, ".local");
    }
    return await work(home, { ...own, HOME: home, TMPDIR: home });
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

async function copySettings(env: Env, file: string, home: string): Promise<void> {
  const config = env.XDG_CONFIG_HOME;
  const moved = file.startsWith(".config/") && config ? path.join(config, file.slice(".config/".length)) : undefined;
  const target = path.join(home, file);
  await mkdir(path.dirname(target), { recursive: true });
  await copyFile(moved ?? path.join(env.HOME!, file), target).catch(() => {});
}
