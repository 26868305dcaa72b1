/** Backups while a platform works, what they restore, and upgrades with a way back. */
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { VERSION } from "../../src/domain/version.ts";
import { CTRL_C, openPseudoTerminal, type PseudoTerminal } from "../cli/pseudo-terminal.ts";
import { damage } from "../damage.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { embeddedOnly } from "../servers.ts";
import { EARLIER, type EarlierData, hasLaterTables, inDatabase, openEarlier } from "./earlier-data/open.ts";
import { project, startPlatform, tempDir } from "./platform.ts";

const FILES = {
  "tasks.py": `import os
from svc import Endpoint, Secret

@Endpoint(name="wide", cpu="cpu3c-1-2", workers=(0, 1), env={"TOKEN": Secret("TOKEN")})
def wide(length: int) -> str:
    return os.environ["TOKEN"] * length

@Endpoint(name="later", cpu="cpu3c-1-2", workers=(0, 0))
def later(number: int) -> int:
    return number
`,
};

const HOLDER = `import { createServer } from "node:net";
process.on("SIGUSR2", () => {});
const server = createServer().listen(0, "127.0.0.1", () => process.send(server.address().port));
`;

const skip = embeddedOnly("the database has backups of its own");

test("A backup made while jobs come has all that was accepted before it, and restores it", { skip }, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, FILES, "shop");
  const data = ["--data-dir", platform.dataDir];
  const svc = async (args: string[], code = 0) => {
    const result = await platform.svc(args, { cwd, input: "sealed" });
    assert.equal(result.code, code, `svc ${args.join(" ")}\n${result.stdout}${result.stderr}`);
    return result;
  };
  await svc(["secret", "set", "TOKEN", "--app", "shop", "--env", "production"]);
  await svc(["deploy"]);
  const urls = new Map((await platform.endpoints()).map(({ name, url }) => [name, new URL(url).pathname]));
  const submit = async () =>
    (await platform.call(`${urls.get("later")}/run`, { body: { input: { number: 1 } } })).json.id;
  // Kept in a file beside the database.
  const large = await platform.call(`${urls.get("wide")}/runsync`, { body: { input: { length: 20_000 } } });
  assert.equal(large.json.output.length, 120_000);
  const accepted = [await submit()];

  const end = new AbortController();
  const flood = (async () => {
    while (!end.signal.aborted) await submit();
  })();
  const target = path.join(tempDir(t), "made/monday");
  // Two at once are two whole backups.
  const [first, second] = await Promise.all([
    svc(["platform", "backup", target, "--json", ...data]),
    svc(["platform", "backup", `${target}-too`, ...data]),
  ]);
  end.abort();
  await flood;
  const facts = JSON.parse(first.stdout);
  assert.deepEqual([facts.path, facts.version, facts.volumes], [target, VERSION, false]);
  assert.match(second.stdout, /^Backup {3}.*monday-too \(\d+ files, [\d.]+ MB\)\nVolumes {2}not copied/);
  assert.equal(statSync(target).mode & 0o777, 0o700);
  for (const folder of [target, `${target}-too`]) {
    const found = inDatabase(folder, (database) => {
      assert.equal(database.prepare("PRAGMA integrity_check").get()!.integrity_check, "ok");
      return database.prepare("SELECT id FROM jobs").all();
    });
    for (const id of accepted)
      assert.ok(
        found.some((job) => String(job.id) === id.replace(/-l1$/, "") || job.id === id),
        id,
      );
  }
  assert.deepEqual(readdirSync(path.join(platform.dataDir, "snapshots")), [], "nothing stays of the snapshots");
  assert.equal(
    (await platform.call(`${urls.get("wide")}/runsync`, { body: { input: { length: 1 } } })).json.output,
    "sealed",
  );

  const after = await submit();
  assert.match(
    (await svc(["platform", "restore", target, ...data], 1)).stderr,
    /The platform runs .*\n.*platform stop/,
  );
  await svc(["key", "create", "of-later"]);
  await platform.stop();
  damage(path.join(platform.dataDir, "platform.db"));
  const damaged = await svc(["platform", "start", ...data], 1);
  assert.match(damaged.stderr, /The platform's database is damaged: .*\n.*platform\.db\n.*svc platform restore FOLDER/);
  assert.doesNotMatch(damaged.stderr, /^\s+at .*:\d+:\d+/m);
  const restored = await svc(["platform", "restore", target, ...data]);
  const [, kept] = /What was there is in (\S+);/.exec(restored.stdout) ?? [];
  assert.ok(existsSync(path.join(kept!, "platform.db")), restored.stdout);
  const again = await platform.restart();
  assert.equal((await again.call(`${urls.get("wide")}/status/${large.json.id}`)).json.output, large.json.output);
  for (const id of accepted)
    assert.equal((await again.call(`${urls.get("later")}/status/${id}`)).json.status, "IN_QUEUE");
  assert.equal((await again.call(`${urls.get("later")}/status/${after}`)).status, 404);
  const opened = await again.call(`${urls.get("wide")}/runsync`, { body: { input: { length: 2 } } });
  assert.equal(opened.json.output, "sealedsealed", opened.text);
  assert.doesNotMatch((await again.svc(["key", "list"])).stdout, /of-later/);
});

describe("What cannot be backed up or restored is refused in words, and nothing is left or lost", () => {
  let earlier: EarlierData;
  let close: () => Promise<void>;
  before(async () => {
    const after = (work: () => Promise<void>) => {
      close = work;
    };
    earlier = await openEarlier({ after }, EARLIER[0]!);
  });
  after(() => close());
  const refused = async (args: string[], says: RegExp, code = 1) => {
    const result = await earlier.run(["platform", ...args]);
    assert.deepEqual([result.code, result.stdout], [code, ""], `svc platform ${args.join(" ")}`);
    assert.match(result.stderr, says);
    assert.doesNotMatch(result.stderr, /^\s+at .*:\d+:\d+/m);
  };

  test("a backup of nothing, onto something, into the data themselves, or where nothing can be written", async (t) => {
    const dir = tempDir(t);
    await refused(
      ["backup", path.join(dir, "b"), "--data-dir", path.join(dir, "none")],
      /no platform was ever started here/,
    );
    await refused(["backup", dir], /is there already/);
    await refused(["backup", path.join(earlier.dataDir, "b")], /would be lost with it/, 2);
    await refused(
      ["backup", "/proc/b"],
      /The backup could not be written: .*\n.*\n.*Name a folder that this user can make/,
    );
    assert.deepEqual(readdirSync(dir), [], "nothing is left");
  });

  test("a folder that is no backup, or one of a newer version", async (t) => {
    const dir = tempDir(t);
    await refused(["restore", dir], /is no backup of svc: it has no readable backup\.json/);
    const target = path.join(dir, "b");
    assert.equal((await earlier.run(["platform", "backup", target])).code, 0);
    inDatabase(target, (database) => database.exec("PRAGMA user_version = 1000"));
    writeFileSync(path.join(target, "version"), "99.0.0\n");
    const had = readdirSync(earlier.dataDir).sort();
    await refused(["restore", target], /used by a newer svc \(99\.0\.0\) and cannot be read by this one/);
    assert.deepEqual(readdirSync(earlier.dataDir).sort(), had);
  });

  test("Ctrl+C while the platform copies, or a platform that dies then, leaves nothing", async (t) => {
    // A platform that has much to copy: it takes the signal, and its snapshot does not come.
    const file = path.join(tempDir(t), "holder.mjs");
    writeFileSync(file, HOLDER);
    const holder = fork(file, { stdio: "ignore", execArgv: [] });
    t.after(() => holder.kill("SIGKILL"));
    const [port] = await once(holder, "message");
    // As behind a proxy: what callers reach this machine may not.
    const at = { url: "http://127.0.0.1:1", localUrl: `http://127.0.0.1:${port}` };
    const facts = { pid: holder.pid, ...at, startedAt: 1, version: VERSION, snapshots: true };
    const record = path.join(earlier.dataDir, "platform.json");
    writeFileSync(record, JSON.stringify(facts));
    t.after(() => rmSync(record));
    const snapshots = path.join(earlier.dataDir, "snapshots");
    mkdirSync(snapshots, { recursive: true });
    const dir = tempDir(t);
    const env = { ...earlier.env, PATH: process.env.PATH!, HOME: process.env.HOME! };
    for (const [how, code, end] of [
      ["Ctrl+C", 130, (terminal: PseudoTerminal) => terminal.type(CTRL_C)],
      ["its death", 1, () => holder.kill("SIGKILL")],
    ] as const) {
      const command = [SVC, "platform", "backup", path.join(dir, "b")];
      const terminal = openPseudoTerminal(command, { cwd: dir, env });
      t.after(() => terminal.close());
      await eventually(() => assert.equal(readdirSync(snapshots).length, 1));
      end(terminal);
      assert.equal(await terminal.ended, code, `${how}\n${terminal.text}`);
      if (code === 1) assert.match(terminal.text, /cannot be asked for a copy: it ended/);
      assert.deepEqual([readdirSync(dir), readdirSync(snapshots)], [[], []], how);
    }
  });

  test("a platform of an earlier version that runs: it knows no snapshots, and the signal would end it", async (t) => {
    const record = path.join(earlier.dataDir, "platform.json");
    const listener = (await import("node:http")).createServer((_, response) => response.end());
    t.after(() => listener.close());
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const { port } = listener.address() as { port: number };
    writeFileSync(
      record,
      JSON.stringify({
        pid: process.pid,
        url: `http://127.0.0.1:${port}`,
        startedAt: 1,
        version: "0.0.9",
        service: true,
      }),
    );
    t.after(() => rmSync(record));
    const upgrade = await earlier.run(["upgrade", "--force"]);
    assert.deepEqual([upgrade.code, upgrade.stdout], [1, ""]);
    assert.match(upgrade.stderr, /runs as a service.*\n.*systemctl stop svc/);
    await refused(["backup", path.join(tempDir(t), "b")], /of an earlier version \(0\.0\.9\).*\n.*svc platform stop/);
  });
});

test("svc upgrade says what changes, backs up, takes the steps, and tells a way back that works", async (t) => {
  const { dataDir, run, env, about } = await openEarlier(t, EARLIER[0]!);
  const unasked = await run(["upgrade"]);
  assert.deepEqual([unasked.code, hasLaterTables(dataDir)], [2, false]);
  assert.match(unasked.stderr, /asks before it changes anything.*\n.*--force/);

  const command = [SVC, "upgrade"];
  const terminal = openPseudoTerminal(command, {
    cwd: dataDir,
    env: { ...env, PATH: process.env.PATH!, HOME: process.env.HOME! },
  });
  t.after(() => terminal.close());
  await terminal.shows(/Steps +\d+ of the tables[\s\S]*Backup[\s\S]*Go on\?/);
  terminal.type("n\r");
  assert.equal(await terminal.ended, 1);
  assert.equal(hasLaterTables(dataDir), false, "without a yes nothing changes");

  const backup = path.join(dataDir, "../before");
  const upgraded = await run(["upgrade", "--force", "--backup", backup]);
  assert.equal(upgraded.code, 0, upgraded.stderr);
  assert.ok(upgraded.stdout.includes(`svc platform restore ${backup}`), upgraded.stdout);
  assert.deepEqual([hasLaterTables(dataDir), hasLaterTables(backup)], [true, false]);
  assert.match(
    (await run(["upgrade", "--force"])).stdout,
    new RegExp(`^Nothing to upgrade: the data are of ${VERSION} already\\.`),
  );

  assert.equal((await run(["platform", "restore", backup])).code, 0);
  assert.equal(hasLaterTables(dataDir), false, "the earlier version can be used again");
  // And forward once more, now with a platform that runs: it is stopped, and runs again on its port.
  const started = JSON.parse((await run(["platform", "start", "--json"])).stdout);
  const record = path.join(dataDir, "platform.json");
  const running = JSON.parse(readFileSync(record, "utf8"));
  writeFileSync(record, JSON.stringify({ ...running, version: "0.0.9" }));
  const live = await run(["upgrade", "--force"]);
  assert.equal(live.code, 0, live.stderr);
  assert.match(live.stdout, /^Version {3}0\.0\.9 → .*$/m);
  assert.match(live.stdout, /^Platform {2}is stopped when its running work is done, and started again/m);
  const now = JSON.parse((await run(["platform", "status", "--json"])).stdout);
  assert.deepEqual([now.running, now.url, now.version], [true, started.url, VERSION]);
  assert.notEqual(now.pid, running.pid);
  await eventually(async () => {
    const headers = { authorization: `Bearer ${about.key}` };
    const answer = await fetch(`${now.url}/v2/${about.endpoints.later}/status/${about.jobs.queued}`, { headers });
    assert.equal((await answer.json()).status, "IN_QUEUE");
  });
});
