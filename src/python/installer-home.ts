/**
 * Where an installer runs that the platform starts by itself: a home of its own, with the user's index settings and nothing
 * else of the user's or the platform's. Its environment is a list of what it needs, not all there is. Its cache lies in the home too:
 * one that outlives it would hand on what one index sent to the next installation.
 */
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import path from "node:path";

type Env = Readonly<Record<string, string | undefined>>;

const PASSED =
  /^(PATH|LANG|LC_.*|TZ|(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|(PIP|UV)_(?!CACHE_DIR$|LOG).*)$/;
/** Below the home; what of it is there. */
const SETTINGS = [".netrc", ".pip/pip.conf", ".config/pip/pip.conf", ".config/uv/uv.toml"];

export interface InstallerHome {
  readonly env: Env;
  /** Files and folders that the settings name: certificates, wheels. */
  readonly named: readonly string[];
}

/** Makes the folder `home`. */
export async function makeInstallerHome(home: string, env: Env): Promise<InstallerHome> {
  await mkdir(home, { mode: 0o700 });
  const own: Record<string, string | undefined> = Object.fromEntries(
    Object.entries(env).filter(([name]) => PASSED.test(name)),
  );
  const settings = Object.entries(own).flatMap(([name, value]) => (name === "PATH" ? [] : [value ?? ""]));
  if (env.HOME !== undefined) {
    for (const file of SETTINGS) settings.push(await copySettings(env, file, home));
    // A pip that was installed for this user alone.
    own.PYTHONUSERBASE = env.PYTHONUSERBASE ?? path.join(env.HOME, ".local");
  }
  const userPackages = own.PYTHONUSERBASE === undefined ? [] : [path.join(own.PYTHONUSERBASE, "lib")];
  const named = [...userPackages, ...settings.flatMap(pathsIn)].filter((one) => existsSync(one));
  return { env: { ...own, HOME: home, TMPDIR: home }, named };
}

/** Returns what stands in the file. */
async function copySettings(env: Env, file: string, home: string): Promise<string> {
  const config = env.XDG_CONFIG_HOME;
  const moved = file.startsWith(".config/") && config ? path.join(config, file.slice(".config/".length)) : undefined;
  const target = path.join(home, file);
  await mkdir(path.dirname(target), { recursive: true });
  try {
    await copyFile(moved ?? path.join(env.HOME!, file), target);
  } catch {
    return "";
  }
  return await readFile(target, "utf8");
}

/** "cert = /etc/ssl/own.pem", "file:///srv/wheels". */
function pathsIn(text: string): string[] {
  return [...text.matchAll(/(?<=^|[\s"'=:[,]|file:\/\/)\/(?!\/)[^\s"',:\]]+/g)].map(([found]) => found);
}
