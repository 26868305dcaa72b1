/** A platform whose keys of secrets are replaced: nothing that was stored is lost, and the old key opens nothing any more. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { SealedText } from "../../src/lib/sealed-text.ts";
import { readSecretKeys } from "../../src/server/secret-keys.ts";
import { ownMachineOnly } from "../pods.ts";
import { embeddedOnly } from "../servers.ts";
import { project, ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const FILES = {
  "main.py": `import os
from svc import Endpoint, Secret

@Endpoint(name="told", cpu="cpu3c-1-2", workers=(0, 1), env={"TOKEN": Secret("TOKEN"), "MODE": "quiet-mode"})
def told() -> str:
    return os.environ["TOKEN"] + os.environ["MODE"]

web = Endpoint(name="web", cpu="cpu3c-1-2", workers=(0, 1))

@web.get("/page")
def page() -> dict:
    return {"page": 1}
`,
};
const SECRET = "value-of-the-secret";
const AUTH = 'mutation { saveRegistryAuth(input: { name: "hub", username: "u", password: "p" }) { id } }';

const skip = embeddedOnly("the database's platform has the same keys") || ownMachineOnly("it has a registry's login");

interface Deployed {
  readonly platform: TestPlatform;
  readonly cwd: string;
  /** Path and query of a signed URL. */
  readonly signed: string;
}

async function deployed(t: TestContext, env: Record<string, string> = {}): Promise<Deployed> {
  const platform = await startPlatform(t, env);
  const cwd = project(t, FILES, "shop");
  const run = async (args: string[]) => {
    const result = await platform.svc(args, { cwd, input: SECRET });
    assert.equal(result.code, 0, `svc ${args.join(" ")}\n${result.stdout}${result.stderr}`);
    return result.stdout.trim();
  };
  await run(["secret", "set", "TOKEN", "--app", "shop", "--env", "production"]);
  await run(["deploy"]);
  await platform.query(AUTH);
  const { href, origin } = new URL(await run(["url", "web", "/page"]));
  return { platform, cwd, signed: href.slice(origin.length) };
}

async function works(platform: TestPlatform): Promise<void> {
  const { url } = (await platform.endpoints()).find(({ name }) => name === "told")!;
  const answer = await platform.call(`${new URL(url).pathname}/runsync?wait=60000`, { body: { input: {} } });
  assert.equal(answer.json.output, `${SECRET}quiet-mode`, answer.text);
}

/** The texts that are stored sealed, wherever they are in the data directory. */
function sealedIn(dataDir: string): Set<string> {
  const files = readdirSync(dataDir).filter((name) => name.startsWith("platform.db"));
  const texts = files.map((name) => readFileSync(path.join(dataDir, name), "latin1"));
  return new Set(texts.flatMap((text) => text.match(/v1\.[\w-]{16}\.[\w-]{22}\.[\w-]+/g) ?? []));
}

const rotate = (platform: TestPlatform, env = {}) =>
  platform.svc(["platform", "rotate-key", "--data-dir", platform.dataDir], { env });

test("svc platform rotate-key seals all that is stored anew; the old key opens nothing, old bytes are gone", {
  skip,
}, async (t) => {
  const { platform, signed } = await deployed(t);
  const [old] = readSecretKeys(platform.dataDir, { keys: undefined, file: undefined });
  assert.equal((await platform.call(signed, { key: null })).status, 200);
  const early = await rotate(platform);
  assert.equal(early.code, 1);
  assert.match(early.stderr, /The platform runs \(process \d+\)[\s\S]*svc platform stop/);
  await platform.svc(["platform", "stop", "--data-dir", platform.dataDir]);

  const before = sealedIn(platform.dataDir);
  assert.ok(before.size >= 3, "a secret, variables, a registry's login");
  const rotated = await rotate(platform);
  assert.equal(rotated.code, 0, rotated.stderr);
  // The variable stands in the endpoint and in its build.
  assert.match(rotated.stdout, /^Key {6}[\da-f]{8}\nSealed {3}4 values with it\nNext: svc platform start/m);
  const keys = readSecretKeys(platform.dataDir, { keys: undefined, file: undefined });
  assert.equal(keys.length, 1);
  assert.notDeepEqual(keys[0], old);
  assert.deepEqual(
    [...sealedIn(platform.dataDir)].filter((text) => before.has(text)),
    [],
  );
  assert.throws(() => new SealedText(old).open([...sealedIn(platform.dataDir)][0]!, "any"));

  const again = await platform.restart();
  await works(again);
  const refused = await again.call(signed, { key: null });
  assert.equal(refused.status, 403, refused.text);
});

test("A change of the key that is killed at any moment leaves a platform that starts and opens its secrets", {
  skip,
}, async (t) => {
  const { platform } = await deployed(t);
  await platform.svc(["platform", "stop", "--data-dir", platform.dataDir]);
  const file = path.join(platform.dataDir, "secret.key");
  for (const pauseMs of [0, 1, 3, 9, 27]) {
    const before = readFileSync(file, "utf8");
    const child = spawn(
      process.execPath,
      [path.join(ROOT, "bin/svc.ts"), "platform", "rotate-key", "--data-dir", platform.dataDir],
      {
        env: { ...process.env, CI: "1" },
        stdio: "ignore",
      },
    );
    const ended = once(child, "exit");
    while (readFileSync(file, "utf8") === before && child.exitCode === null) await pause(1);
    await pause(pauseMs);
    child.kill("SIGKILL");
    await ended;
    const again = await platform.restart();
    await works(again);
    await again.stop();
  }
  assert.equal((await rotate(platform)).code, 0);
  assert.equal(readFileSync(file, "utf8").trim().split("\n").length, 1);
  await works(await platform.restart());
});

test("Keys from a file: a new one is put in front, then the old one goes, and nothing is lost", { skip }, async (t) => {
  const file = path.join(tempDir(t), "keys");
  const [one, two] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")];
  writeFileSync(file, `${one}\n`);
  const { platform, signed } = await deployed(t, { SVC_SECRET_KEY_FILE: file });
  assert.ok(!existsSync(path.join(platform.dataDir, "secret.key")));
  const told = await rotate(platform, { SVC_SECRET_KEY_FILE: file });
  assert.equal(told.code, 1, "it runs");
  await platform.svc(["platform", "stop", "--data-dir", platform.dataDir]);
  const refused = await rotate(platform, { SVC_SECRET_KEY_FILE: file });
  assert.match(refused.stderr, /kept outside its data directory[\s\S]*secret-keys\.md/);

  writeFileSync(file, `${two}\n${one}\n`);
  const cli = (...args: string[]) =>
    platform.svc(["platform", ...args, "--data-dir", platform.dataDir], { env: { SVC_SECRET_KEY_FILE: file } });
  const started = await cli("start", "--port", "0");
  assert.equal(started.code, 0, started.stderr);
  const { stdout } = await cli("logs");
  await cli("stop");
  assert.match(stdout, /Secrets are sealed with key [\da-f]{8} now; of what is stored nothing needs [\da-f]{8}\./);
  assert.ok(!stdout.includes(one) && !stdout.includes(two));
  const both = await platform.restart();
  await works(both);
  assert.equal((await both.call(signed, { key: null })).status, 200, "what the old one signed holds");
  await both.svc(["platform", "stop", "--data-dir", platform.dataDir]);

  writeFileSync(file, `${two}\n`);
  const last = await platform.restart();
  await works(last);
  assert.equal((await last.call(signed, { key: null })).status, 403);
  await last.svc(["platform", "stop", "--data-dir", platform.dataDir]);

  rmSync(file);
  const failed = await platform.svc(["platform", "start", "--port", "0", "--data-dir", platform.dataDir], {
    env: { SVC_SECRET_KEY_FILE: file },
  });
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /keys of the secrets cannot be read[\s\S]*keys/);
});
