/** The guide for production: its commands as they stand there, in their order, on a platform of their own. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { SETTINGS_FILE } from "../../src/cli/platform/service-unit.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { CONFIG_KEYS, readConfig } from "../../src/server/config.ts";
import { BIN } from "../program.ts";
import { removeFolder } from "../remove-folder.ts";
import { ROOT } from "./platform.ts";

const TASKS = `from svc import Endpoint

@Endpoint(name="double")
def double(n: int) -> int:
    return 2 * n
`;

const page = readFileSync(path.join(ROOT, "docs/guide/production.md"), "utf8");
const blocks = Array.from(page.matchAll(/^```sh\n([\s\S]*?)^```/gm), ([, block]) => block!);

test("The commands of the guide for production work one after the other", async (t) => {
  const home = mkdtempSync(path.join(tmpdir(), "svc-production-"));
  const settings = blocks.find((block) => block.startsWith("SVC_"))!;
  const given = Object.fromEntries(
    settings
      .trim()
      .split("\n")
      .map((line) => line.split("=") as [string, string]),
  );
  assert.deepEqual(
    Object.keys(given).filter((key) => !CONFIG_KEYS.includes(key)),
    [],
  );
  const config = readConfig({ ...given, SVC_DATA_DIR: home });
  assert.deepEqual(config.trustedProxies, ["127.0.0.1"]);
  const { SVC_PUBLIC_URL: _, ...own } = given;
  const env = {
    ...own,
    PATH: `${BIN}:${process.env.PATH}`,
    HOME: process.env.HOME,
    SVC_DATA_DIR: path.join(home, "data"),
    SVC_CONFIG_DIR: path.join(home, "config"),
    BACKUPS: path.join(home, "backups"),
    SVC_PORT: "0",
    NO_COLOR: "1",
    CI: "1",
  };
  const cwd = path.join(home, "shop");
  mkdirSync(cwd);
  writeFileSync(path.join(cwd, "tasks.py"), TASKS);
  t.after(async () => {
    await runProcess("svc", ["platform", "stop", "--now"], { env, cwd });
    await removeFolder(home);
  });
  const commands = blocks.filter((block) => block !== settings);
  assert.ok(
    commands.some((block) => block.includes("svc upgrade")) && commands.some((block) => block.includes("restore")),
  );
  const git = "git init -q && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m first";
  const call = "svc call double n=4 --app shop --env staging";
  const script = ["svc platform start", git, ...commands, call].join("\n");
  writeFileSync(path.join(home, "script.sh"), script);
  const { code, stdout, stderr } = await runProcess("bash", ["-eux", path.join(home, "script.sh")], { cwd, env });
  assert.equal(code, 0, `${stdout}\n${stderr}`);
  assert.match(stdout, /^8$/m, "what was deployed before the backup is called after it was restored");
  assert.match(stdout, /Restored .* as it was at/);
  assert.match(stdout, /Nothing to upgrade/);
  assert.ok(existsSync(path.join(env.BACKUPS, "monday/secret.key")));
});

test("What the guide names besides is there: the settings' file, the flags of the unit", () => {
  assert.ok(page.includes(SETTINGS_FILE));
  for (const name of page.match(/\bSVC_[A-Z_]+\b/g)!) assert.ok([...CONFIG_KEYS, "SVC_DATA_DIR"].includes(name), name);
});
