/** Who a platform under attack runs as: root, and an ordinary user without an account; without root, only who runs the tests. */
import { chownSync, mkdtempSync, rmSync } from "node:fs";
import { userInfo } from "node:os";
import type { TestContext } from "node:test";
import { startPlatform, type TestPlatform } from "../e2e/platform.ts";

interface Running {
  readonly platform: TestPlatform;
  /** Of the platform's user. */
  readonly home: string;
  /** For the CLI too. */
  readonly env: Record<string, string>;
}

export interface SetUp {
  readonly name: string;
  readonly isRoot: boolean;
  start(t: TestContext): Promise<Running>;
}

const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** Where distributions count the users that they make; each file of tests has a number of its own there. */
const ORDINARY_UID = 30_000;
const ORDINARY_UIDS = 30_000;

export function setUps(): SetUp[] {
  const { uid, username, homedir: home } = userInfo();
  const asWhoRunsTheTests = async (t: TestContext) => ({ platform: await startPlatform(t), home, env: {} });
  if (uid !== 0) return [{ name: `user ${username}`, isRoot: false, start: asWhoRunsTheTests }];
  return [
    { name: "root", isRoot: true, start: asWhoRunsTheTests },
    { name: "an ordinary user", isRoot: false, start: asOrdinaryUser },
  ];
}

/** The kernel asks for no account: nothing is written to the machine's list of users, which other tests may have locked. */
async function asOrdinaryUser(t: TestContext): Promise<Running> {
  const uid = ORDINARY_UID + (process.pid % ORDINARY_UIDS);
  const home = mkdtempSync("/home/svctest-");
  try {
    chownSync(home, uid, uid);
    const env = { HOME: home, PATH: SYSTEM_PATH };
    return { platform: await startPlatform(t, env, { uid, gid: uid }), home, env };
  } finally {
    // What runs after a test runs in the order of its registration: the platform, which writes there, has stopped.
    t.after(() => rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  }
}
