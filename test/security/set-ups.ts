/** Who a platform under attack runs as: root, and an ordinary user that the test makes for itself; without root, only who runs the tests. */
import { mkdirSync } from "node:fs";
import { userInfo } from "node:os";
import type { TestContext } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";

export interface SetUp {
  readonly name: string;
  readonly isRoot: boolean;
  /** Environment and user of the platform. */
  prepare(t: TestContext): Promise<{ env: Record<string, string>; home: string; user?: { uid: number; gid: number } }>;
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
let made = 0;

export function setUps(): SetUp[] {
  const { uid, username, homedir } = userInfo();
  if (uid !== 0)
    return [{ name: `user ${username}`, isRoot: false, prepare: async () => ({ env: {}, home: homedir }) }];
  return [
    { name: "root", isRoot: true, prepare: async () => ({ env: {}, home: homedir }) },
    { name: "an ordinary user", isRoot: false, prepare: ordinaryUser },
  ];
}

async function ordinaryUser(t: TestContext) {
  const name = `svctest${process.pid}x${made++}`;
  const home = `/home/${name}`;
  const { code, stderr } = await runProcess("useradd", ["--create-home", "--home-dir", home, name]);
  if (code !== 0) throw new Error(`useradd: ${stderr}`);
  t.after(() => runProcess("userdel", ["--remove", name]));
  const { stdout } = await runProcess("id", ["-u", name]);
  const uid = Number(stdout);
  mkdirSync(home, { recursive: true });
  return { env: { HOME: home, PATH: SYSTEM_PATH }, home, user: { uid, gid: uid } };
}
