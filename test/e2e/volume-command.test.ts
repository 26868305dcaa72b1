/** `svc volume` as people use it, on a platform whose workers use the same volumes. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const WORKER = `
import os
from svc import Endpoint, Volume

@Endpoint(name="use", volumes={"/models": Volume("models", size_limit="40MB")})
def use(how: str, path: str, text: str = ""):
    if how == "link":
        return os.symlink(text, path)
    if how == "write":
        return open(path, "w").write(text)
    return open(path).read()
`;

test("Files go into a volume and out of it, workers have them, and links of a worker lead nowhere", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "main.py": WORKER, ".svcignore": "local/\n" });
  const local = path.join(cwd, "local");
  mkdirSync(path.join(local, "sub"), { recursive: true });
  writeFileSync(path.join(local, "one.txt"), "one");
  writeFileSync(path.join(local, "sub/two.txt"), "two");
  symlinkSync("one.txt", path.join(local, "same.txt"));
  symlinkSync("/etc/hostname", path.join(local, "other.txt"));
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await platform.svc(["volume", ...args], { cwd });
    assert.equal(code, 0, stdout + stderr);
    return stdout + stderr;
  };
  const refused = async (words: RegExp, ...args: string[]) => {
    const { code, stdout, stderr } = await platform.svc(["volume", ...args], { cwd });
    assert.notEqual(code, 0, stdout);
    assert.match(stderr, words);
  };

  // Before anything is deployed.
  assert.match(await run("create", "models"), /Made models in app\/production/);
  await refused(/has a volume "models" already/, "create", "models");
  await refused(/no volume "other"/, "put", "other", "main.py");
  assert.match(await run("put", "models", "local"), /models\/local: 3 files, 9 B[\s\S]*Left out.*other\.txt/);
  await run("put", "models", "local/one.txt", "local/renamed.txt");
  const piped = await platform.svc(["volume", "put", "models", "-", "deep/piped"], { cwd, input: "piped" });
  assert.equal(piped.code, 0, piped.stderr);
  await refused(/needs a name/, "put", "models", "-");
  await refused(/no file or folder ".*nothing"/, "put", "models", "nothing");
  await refused(/has no part "\.\."/, "put", "models", "main.py", "../up");
  const entries = JSON.parse(await run("ls", "models", "local", "--json")) as { name: string; kind: string }[];
  assert.deepEqual(
    entries.map(({ name }) => name),
    ["one.txt", "renamed.txt", "same.txt", "sub"],
  );
  assert.match(await run("ls", "models"), /NAME[\s\S]*deep\/ +folder[\s\S]*local\/ +folder/);
  await run("get", "models", "local", "copy");
  assert.equal(readFileSync(path.join(cwd, "copy/sub/two.txt"), "utf8"), "two");
  await run("get", "models", "deep/piped");
  assert.equal(readFileSync(path.join(cwd, "piped"), "utf8"), "piped");
  await refused(/piped is there already[\s\S]*--force/, "get", "models", "deep/piped");
  assert.equal((await platform.svc(["volume", "get", "models", "deep/piped", "-"], { cwd })).stdout, "piped");

  // Workers read what was put there, and what they write comes out.
  const deployed = await platform.svc(["deploy"], { cwd });
  if (/this machine lacks namespaces/.test(deployed.stderr)) return t.skip(deployed.stderr);
  assert.equal(deployed.code, 0, deployed.stderr);
  const [endpoint] = await platform.endpoints();
  const call = async (how: string, file: string, text = "") =>
    (await platform.call(`${endpoint!.url}/runsync`, { body: { input: { how, path: file, text } } })).json;
  assert.equal((await call("read", "/models/local/sub/two.txt")).output, "two");
  assert.equal((await call("write", "/models/local/one.txt", "changed")).status, "COMPLETED");
  assert.equal((await platform.svc(["volume", "get", "models", "local/one.txt", "-"], { cwd })).stdout, "changed");

  // A worker that means harm.
  assert.equal((await call("link", "/models/out", platform.dataDir)).status, "COMPLETED");
  await refused(/links are not followed/, "get", "models", "out");
  await refused(/leads over a (file or a )?link/, "get", "models", "out/secret.key");
  await refused(/leads over a (file or a )?link/, "put", "models", "main.py", "out/evil");
  await refused(/leads over a (file or a )?link/, "rm", "models", "out/secret.key");
  assert.deepEqual(
    JSON.parse(await run("ls", "models", "out", "--json")).map((one: { kind: string }) => one.kind),
    ["link"],
  );
  await run("get", "models", "/", "all");
  assert.ok(!existsSync(path.join(cwd, "all/out")));
  await run("rm", "models", "out");
  assert.ok(existsSync(path.join(platform.dataDir, "secret.key")));
  assert.ok(!existsSync(path.join(platform.dataDir, "evil")));

  // Above its limit it takes nothing new, and says why; below it again it does.
  writeFileSync(path.join(cwd, "large.bin"), Buffer.alloc(30_000_000, 1));
  await run("put", "models", "large.bin");
  await eventually(async () => assert.match(await run("list"), /models +30\.\d MB +40\.0 MB +use/));
  await refused(/holds more than its limit/, "put", "models", "large.bin", "again.bin");
  assert.match((await platform.svc(["status", "use"], { cwd })).stdout, /volume +models 30\.\d MB of 40\.0 MB/);
  await refused(/used by use/, "delete", "models", "--force");

  // On a terminal a long upload shows how far it is, and Ctrl+C leaves nothing of it.
  const uploads = path.join(platform.dataDir, "volumes/app/production/.uploads");
  await run("create", "scratch");
  writeFileSync(path.join(cwd, "huge"), "");
  truncateSync(path.join(cwd, "huge"), 50_000_000_000);
  const terminal = openPseudoTerminal([SVC, "volume", "put", "scratch", "huge"], {
    cwd,
    env: {
      PATH: process.env.PATH!,
      HOME: process.env.HOME!,
      PLATFORM_URL: platform.url,
      PLATFORM_API_KEY: platform.key,
      SVC_CONFIG_DIR: path.join(platform.dir, "config"),
    },
  });
  t.after(terminal.close);
  await terminal.shows(/Uploading [\d.]+ MB of 50\.0 GB \(0 %\)/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, 130, terminal.text);
  await eventually(() => assert.deepEqual(readdirSync(uploads), []));
  assert.deepEqual(JSON.parse(await run("ls", "scratch", "--json")), []);
  await refused(/nobody can be asked here/, "delete", "scratch");
  assert.match(await run("delete", "scratch", "--force"), /Deleted scratch/);
  await run("rm", "models", "/", "--recursive");
  assert.deepEqual(JSON.parse(await run("ls", "models", "--json")), []);

  // The commands of the page, one after the other.
  const page = readFileSync(path.join(ROOT, "docs/reference/volumes.md"), "utf8");
  const [, commands] = /## Files from outside\n\n```sh\n([\s\S]*?)```/.exec(page)!;
  const elsewhere = project(t, { "weights.bin": "weights" }, "docs");
  for (const line of commands!.trim().split("\n")) {
    const { code, stderr } = await platform.svc(line.split(" ").slice(1), { cwd: elsewhere });
    assert.equal(code, 0, `${line}: ${stderr}`);
  }
  assert.equal(readFileSync(path.join(elsewhere, "copy.bin"), "utf8"), "weights");
});
