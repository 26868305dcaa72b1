/** `svc platform install-service`: the unit as systemd reads it, and what it starts. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { NODE_FLAGS } from "../../src/cli/platform/node-flags.ts";
import { SETTINGS_FILE, serviceUnit, UNIT_FILE, USER_FILE } from "../../src/cli/platform/service-unit.ts";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { CONFIG_KEYS } from "../../src/server/config.ts";
import { eventually } from "../eventually.ts";
import { removeFolder } from "../remove-folder.ts";
import { sandbox } from "./run-svc.ts";

const hasSystemd = ["systemctl", "systemd-sysusers", "systemd-analyze"].every(
  (tool) => onPath(tool, process.env.PATH ?? "") !== undefined,
);
const skip = hasSystemd ? false : "systemd's tools are not here";

function tempDir(t: TestContext): string {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-service-"));
  t.after(() => removeFolder(dir));
  return dir;
}

test("--print shows the unit and writes nothing; systemd has nothing to say against it", async (t) => {
  const { svc } = await sandbox();
  const { code, stdout } = await svc([
    "platform",
    "install-service",
    "--print",
    "--user",
    "jobs",
    "--data-dir",
    "/srv/svc",
  ]);
  assert.equal(code, 0);
  for (const line of [
    "RequiresMountsFor=/srv/svc",
    "User=jobs",
    "Delegate=yes",
    "NoNewPrivileges=yes",
    `EnvironmentFile=-${SETTINGS_FILE}`,
  ]) {
    assert.ok(stdout.split("\n").includes(line), line);
  }
  assert.match(stdout, /^Environment=.* SVC_DATA_DIR=\/srv\/svc /m);
  assert.match(stdout, /^ExecStart=\/.* platform start --foreground --key-file \/srv\/svc\/first-key$/m);
  if (!hasSystemd) return;
  const file = path.join(tempDir(t), "svc.service");
  writeFileSync(file, stdout.replace("User=jobs", "User=root").replace("Group=jobs", "Group=root"));
  const verified = await runProcess("systemd-analyze", ["verify", "--man=no", file], { env: process.env });
  const about = `${verified.stdout}${verified.stderr}`.split("\n").filter((line) => line.includes("svc.service"));
  assert.deepEqual([verified.code, about], [0, []]);
});

test("What it starts is a platform in the foreground with the heap of one in the background; its key is in a file, and SIGTERM ends it", async (t) => {
  const dir = tempDir(t);
  const data = path.join(dir, "data");
  const { command, env } = await sandbox();
  const program = [process.execPath, ...command([])];
  const unit = serviceUnit({ program, user: "svc", dataDir: data });
  const [, start] = /^ExecStart=(.*)$/m.exec(unit)!;
  const [, variables] = /^Environment=(.*)$/m.exec(unit)!;
  const own = Object.fromEntries(variables!.split(" ").map((pair) => pair.split("=") as [string, string]));
  mkdirSync(data, { mode: 0o700 });
  const [executable, ...args] = start!.split(" ");
  const service = spawn(executable!, args, {
    env: { PATH: env.PATH, ...own, SVC_PORT: "0" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(service, "exit");
  // Its launcher ends with it then.
  t.after(async () => {
    service.kill("SIGQUIT");
    await ended;
  });
  const said = { text: "" };
  for (const stream of [service.stdout, service.stderr]) {
    stream.setEncoding("utf8").on("data", (more: string) => {
      said.text += more;
    });
  }
  await eventually(() => assert.match(said.text, /First API key: in /));
  const keyFile = path.join(data, "first-key");
  const key = readFileSync(keyFile, "utf8").trim();
  assert.match(key, /^svc_/);
  assert.equal(statSync(keyFile).mode & 0o777, 0o600);
  assert.ok(!said.text.includes(key), "the key is not in the journal");
  const record = JSON.parse(readFileSync(path.join(data, "platform.json"), "utf8"));
  assert.equal(record.pid, service.pid, "systemd watches the platform itself");
  if (existsSync("/proc/self/cmdline")) {
    const line = readFileSync(`/proc/${service.pid}/cmdline`, "utf8").split("\0");
    for (const flag of NODE_FLAGS) assert.ok(line.includes(flag), line.join(" "));
  }
  service.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
});

test("--root installs it into another root file system: unit, user, settings, enabled; settings that are there stay", {
  skip,
}, async (t) => {
  const root = tempDir(t);
  const { svc } = await sandbox();
  const install = () => svc(["platform", "install-service", "--root", root]);
  const first = await install();
  if (process.getuid?.() !== 0) return assert.match(first.stderr, /systemd-sysusers .* failed|as root/);
  assert.equal(first.code, 0, first.stderr);
  assert.match(readFileSync(path.join(root, UNIT_FILE), "utf8"), /^User=svc$/m);
  assert.match(readFileSync(path.join(root, "etc/passwd"), "utf8"), /^svc:x:\d+:\d+:svc platform:\/var\/lib\/svc:/m);
  assert.ok(existsSync(path.join(root, USER_FILE)));
  const link = path.join(root, "etc/systemd/system/multi-user.target.wants/svc.service");
  assert.equal(readlinkSync(link), UNIT_FILE);
  const settings = path.join(root, SETTINGS_FILE);
  const named = [...readFileSync(settings, "utf8").matchAll(/^#(SVC_\w+)=/gm)].map(([, name]) => name!);
  assert.deepEqual(
    named.filter((name) => !CONFIG_KEYS.includes(name)),
    [],
  );
  writeFileSync(settings, "SVC_PORT=7000\n");
  assert.equal((await install()).code, 0);
  assert.equal(readFileSync(settings, "utf8"), "SVC_PORT=7000\n");
});

test("The agent of a host is a service in the same way: its unit has what it joins with, and no token", async (t) => {
  const { svc } = await sandbox();
  const address = `https://svc.example.com#${"ab".repeat(32)}`;
  const given = [
    "worker",
    "join",
    address,
    "--install-service",
    "--name",
    "gpu-box",
    "--labels",
    "gpu,eu",
    "--cpus",
    "4",
  ];
  const { code, stdout, stderr } = await svc([...given, "--print", "--token", "svch_secret"]);
  assert.equal(code, 0, stderr);
  const start = `worker join ${address} --data-dir /var/lib/svc-host --grace 600s --name gpu-box --labels gpu,eu --cpus 4`;
  assert.match(stdout, new RegExp(`^ExecStart=/.* ${start}$`, "m"));
  for (const line of [
    "RequiresMountsFor=/var/lib/svc-host",
    "User=svc-host",
    "Delegate=yes",
    "EnvironmentFile=-/etc/svc/host.env",
    "TimeoutStopSec=660",
  ]) {
    assert.ok(stdout.split("\n").includes(line), line);
  }
  assert.ok(!stdout.includes("svch_secret"));
  assert.match(stdout, /^ExecReload=\/bin\/kill -USR2 \$MAINPID$/m, "what runs is handed over");
  const longer = await svc([...given, "--print", "--grace", "2h"]);
  assert.match(longer.stdout, / --grace 7200s [\s\S]*^TimeoutStopSec=7260$/m);
  assert.doesNotMatch(stdout, /SupplementaryGroups/);
  const containers = await svc([...given, "--print", "--driver", "docker"]);
  assert.match(containers.stdout, /^SupplementaryGroups=docker$/m, "whom the engine listens to");
  const strange = await svc([...given, "--print", "--user", "Root User"]);
  assert.deepEqual([strange.code, strange.stdout], [2, ""]);
  const without = await svc(given);
  assert.match(without.stderr, /A token is missing: the service joins with it/);
  if (!hasSystemd || process.getuid?.() !== 0) return;
  const root = tempDir(t);
  const installed = await svc([...given, "--root", root], { env: { SVC_HOST_TOKEN: "svch_secret" } });
  assert.equal(installed.code, 0, installed.stderr);
  const settings = path.join(root, "etc/svc/host.env");
  assert.match(readFileSync(settings, "utf8"), /^SVC_HOST_TOKEN=svch_secret$/m);
  assert.equal(statSync(settings).mode & 0o777, 0o600);
  const enabled = path.join(root, "etc/systemd/system/multi-user.target.wants/svc-host.service");
  assert.equal(readlinkSync(enabled), "/etc/systemd/system/svc-host.service");
  assert.match(readFileSync(path.join(root, "etc/passwd"), "utf8"), /^svc-host:x:/m);
});

test("Words that would mean something to systemd, and a machine without it, are refused", async () => {
  const { svc } = await sandbox();
  for (const args of [
    ["--data-dir", "relative"],
    ["--data-dir", "/srv/a b"],
    ["--data-dir", "/srv/%h"],
    ["--data-dir", "/srv/x\nExecStartPre=/bin/false"],
    ["--user", "Root User"],
  ]) {
    const { code, stdout, stderr } = await svc(["platform", "install-service", "--print", ...args]);
    assert.deepEqual([code, stdout], [2, ""], args.join(" "));
    assert.match(stderr, /mean nothing to systemd/);
  }
  const bare = path.dirname(process.execPath);
  const without = await svc(["platform", "install-service"], { env: { PATH: bare } });
  assert.equal(without.code, 1);
  assert.match(without.stderr, /systemctl is not here.*\n.*--foreground|home folder/);
});
