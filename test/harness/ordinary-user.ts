/**
 * A user without rights and without an account, for a run of tests that root started. The kernel asks for no account: nothing is
 * written to the machine's list of users, which other tests may have locked.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

export interface OrdinaryUser {
  readonly uid: number;
  readonly gid: number;
  readonly env: NodeJS.ProcessEnv;
}

/** Where distributions count the users that they make. */
const FIRST = 30_000;
const COUNT = 30_000;

/** Each `number` is a user of its own. Its home is made in `folder`; `compiled` is what sharedCompiled made. */
export function ordinaryUser(number: number, folder: string, compiled: string): OrdinaryUser {
  const uid = FIRST + ((process.pid + number) % COUNT);
  const home = path.join(folder, "home");
  mkdirSync(home, { recursive: true });
  for (const dir of [folder, home]) chownSync(dir, uid, uid);
  const isOpen = (dir: string) => !`${dir}/`.startsWith(`${homedir()}/`);
  const search = (process.env.PATH ?? "").split(path.delimiter).filter(isOpen).join(path.delimiter);
  // Node has a folder for each of its versions and users.
  const cache = path.join(folder, "compiled");
  mkdirSync(cache, { recursive: true });
  for (const version of readdirSync(compiled))
    symlinkSync(path.join(compiled, version), path.join(cache, `${version}-${uid}`));
  const env = { ...process.env, HOME: home, PATH: search, NODE_COMPILE_CACHE: cache, USER: "", LOGNAME: "" };
  return { uid, gid: uid, env };
}

/** A copy, for every user, of the code that root compiled so far; resolves its folder. */
export function sharedCompiled(cache: string): string {
  const shared = mkdtempSync("/tmp/svc-c-");
  chmodSync(shared, 0o755);
  for (const name of existsSync(cache) ? readdirSync(cache) : []) {
    const to = path.join(shared, name.replace(/-\d+$/, ""));
    cpSync(path.join(cache, name), to, { recursive: true });
    for (const file of readdirSync(to)) chmodSync(path.join(to, file), 0o644);
    chmodSync(to, 0o1777);
  }
  return shared;
}

/** Why such a user cannot run the tests of this clone; "" when it can. */
export function whyNot({ uid, gid, env }: OrdinaryUser, file: string): string {
  const code = `require("node:fs").readFileSync(${JSON.stringify(file)})`;
  try {
    execFileSync(process.execPath, ["-e", code], { uid, gid, env, stdio: "pipe" });
    execFileSync("python3", ["-c", ""], { uid, gid, env, stdio: "pipe" });
    return "";
  } catch (error) {
    return String((error as Error).message).split("\n")[0]!;
  }
}
