/** The embedded platform, for real. The sandbox stops what a test leaves running. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { mountOptions } from "../../src/lib/mount-options.ts";
import { openSqlite } from "../../src/lib/sqlite.ts";
import { isRunning } from "../../src/lib/start-time.ts";
import { eventually } from "../eventually.ts";
import { smallDisk, whyNoSmallDisk } from "../small-disk.ts";
import { openPseudoTerminal } from "./pseudo-terminal.ts";
import { type Sandbox, sandbox } from "./run-svc.ts";

interface Started {
  readonly url: string;
  readonly pid: number;
  readonly firstKey?: string;
  readonly started: boolean;
}

async function start(box: Sandbox): Promise<Started> {
  const { code, stdout, stderr } = await box.svc(["platform", "start", "--port", "0", "--json"]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as Started;
}

describe("svc platform", () => {
  test("start waits until it takes calls, stores the first key, and stop ends the process", async () => {
    const box = await sandbox();
    const { url, pid, firstKey } = await start(box);
    assert.match(firstKey ?? "", /^svc_/);
    assert.equal((await fetch(url)).status, 200);

    const status = await box.svc(["platform", "status", "--json"]);
    assert.equal(status.code, 0);
    const shown = JSON.parse(status.stdout) as { running: boolean; url: string; pid: number };
    assert.deepEqual([shown.running, shown.url, shown.pid], [true, url, pid]);
    assert.deepEqual(await box.svc(["whoami", "--show-key"]), { code: 0, stdout: `${firstKey}\n`, stderr: "" });
    assert.match((await box.svc(["whoami"])).stdout, /^Valid +yes$/m);

    const again = await box.svc(["platform", "start"]);
    assert.equal(again.code, 0);
    assert.match(again.stdout, /already runs/);

    assert.equal((await box.svc(["platform", "stop"])).code, 0);
    // Whoever adopted it may not have reaped it yet.
    assert.equal(isRunning(pid), false);
    assert.equal((await box.svc(["platform", "status"])).code, 1);
    assert.match((await box.svc(["platform", "stop"])).stdout, /No platform runs/);
    const log = (await box.svc(["platform", "logs", "-n", "1"])).stdout;
    const [, time, rest] = /^(\d{4}-\d\d-\d\dT\S+Z) (.*)\n$/.exec(log)!;
    // On a terminal the times are those of its clock.
    const far = { cwd: box.cwd, env: { ...box.env, TZ: "Asia/Kolkata" } };
    const terminal = openPseudoTerminal([process.execPath, ...box.command(["platform", "logs", "-n", "1"])], {
      ...far,
      columns: 400,
    });
    assert.equal(await terminal.ended, 0);
    const local = new Date(Date.parse(time!) + 5.5 * 3_600_000).toISOString();
    assert.equal(terminal.text.trim(), `${local.replace("T", " ").replace("Z", "")} ${rest}`);
  });

  test("the key is shown at the first start only and stays valid at another port", async () => {
    const box = await sandbox();
    const first = await start(box);
    await box.svc(["platform", "stop", "--now"]);
    const second = await start(box);
    assert.equal(second.firstKey, undefined);
    assert.equal((await box.svc(["whoami", "--show-key"])).stdout.trim(), first.firstKey);
    assert.equal((await box.svc(["status"])).code, 0);
    const stored = await readFile(join(box.configDir, "credentials.json"), "utf8");
    assert.ok(stored.includes(first.firstKey!));
    assert.ok(!(await readFile(join(box.dataDir, "platform.log"), "utf8")).includes(first.firstKey!));
  });

  test("commands that start the platform at the same time have one, all with its key", async () => {
    const box = await sandbox();
    const platforms = await Promise.all([start(box), start(box)]);
    assert.equal(platforms.filter(({ started }) => started).length, 1);
    assert.equal(platforms.filter(({ firstKey }) => firstKey !== undefined).length, 1);
    const { pid, url } = platforms[0]!;
    for (const other of platforms) assert.deepEqual([other.pid, other.url], [pid, url]);
    assert.equal((await box.svc(["status"])).code, 0);
  });

  test("start waits for a platform of its data directory that ends", async () => {
    const box = await sandbox();
    await start(box);
    await box.svc(["platform", "stop"]);
    const ending = openSqlite(join(box.dataDir, "platform.db"), "normal");
    const starts = start(box);
    const log = join(box.dataDir, "platform.log");
    await eventually(async () => assert.match(await readFile(log, "utf8"), /Another platform is running/));
    ending.close();
    assert.equal((await starts).started, true);
  });

  test("a first key that cannot be stored is shown, as nobody else has it, and so is a setting that nobody reads", async () => {
    const box = await sandbox();
    const file = join(box.cwd, "file");
    await writeFile(file, "");
    const nowhere = { SVC_CONFIG_DIR: join(file, "folder"), SVC_WORKER_QUOTAS: "5" };
    const { code, stdout, stderr } = await box.svc(["platform", "start", "--port", "0"], { env: nowhere });
    assert.equal(code, 0, stderr);
    assert.match(stderr, /warning: The stored keys cannot be used: .*credentials\.json/);
    // The sandbox has many names that are settings, or nobody's: only one is almost one.
    assert.deepEqual(stderr.match(/.* is no setting.*/g), [
      "warning: SVC_WORKER_QUOTAS is no setting. Did you mean SVC_WORKER_QUOTA?",
    ]);
    const [, key = ""] =
      /^Key +(svc_\S+) +\(shown only now; not stored: set PLATFORM_API_KEY to it\)$/m.exec(stdout) ?? [];
    const status = await box.svc(["status"], { env: { PLATFORM_API_KEY: key } });
    assert.equal(status.code, 0, status.stderr);
  });

  test("a data directory that is mounted noexec is told of", { skip: whyNoSmallDisk }, async (t) => {
    const box = await sandbox();
    const { disk } = smallDisk(t, 64);
    const place = join(disk, "a place");
    const folder = join(place, "data");
    mkdirSync(place);
    execFileSync("mount", ["-t", "tmpfs", "-o", "noexec,size=64m,mode=700", "svc-test", place]);
    const { code, stderr } = await box.svc(["platform", "start", "--data-dir", folder]);
    await box.svc(["platform", "stop", "--now", "--data-dir", folder]);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^warning: .*a place\/data lies on a file system that is mounted noexec: packages with/m);
    assert.deepEqual(mountOptions(disk).includes("noexec"), false);
  });

  test("a record left by a killed platform does not count", async () => {
    const box = await sandbox();
    const { pid } = await start(box);
    process.kill(pid, "SIGKILL");
    await gone(pid);
    assert.equal((await box.svc(["platform", "status"])).code, 1);
    const next = await start(box);
    assert.equal(next.started, true);
    assert.equal((await box.svc(["status"])).code, 0);
  });

  test("a busy port is one clear message that names the port and the next command", async (t) => {
    const box = await sandbox();
    const blocker = createServer().listen(0, "127.0.0.1");
    blocker.unref();
    t.after(() => blocker.close());
    await once(blocker, "listening");
    const { port } = blocker.address() as AddressInfo;
    const { code, stdout, stderr } = await box.svc(["platform", "start", "--port", String(port)]);
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.match(stderr, new RegExp(`error: .*\\b${port}\\b`));
    assert.match(stderr, /svc platform start --port/);
    assert.doesNotMatch(stderr, /\n {4}at /);
  });

  test("a data directory that cannot be used is one clear message", async () => {
    const box = await sandbox();
    const file = join(box.cwd, "file");
    await writeFile(file, "");
    const { code, stderr } = await box.svc(["platform", "start", "--data-dir", join(file, "data")]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /The data directory cannot be used: .*\n {2}at .*file\/data\n {2}Choose another with --data-dir/,
    );
    if (!existsSync("/proc/self")) return;
    const nowhere = await box.svc(["platform", "start"], { env: { SVC_DATA_DIR: "/proc/nope" } });
    assert.match(nowhere.stderr, /The data directory cannot be used: .*\/proc\/nope/);
  });

  test("a wrong configuration key is named", async () => {
    const box = await sandbox();
    const { code, stderr } = await box.svc(["platform", "start"], { env: { SVC_DURABILITY: "sometimes" } });
    assert.equal(code, 1);
    assert.match(stderr, /SVC_DURABILITY/);
    assert.match(stderr, /config\.md/);
  });
});

/** Waits for the end of a process that is not this one's child. */
async function gone(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
}
