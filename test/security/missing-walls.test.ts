/** A platform of root that may not make namespaces, as in a container: what is missing is said, and strict is refused. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { project, ROOT, svc, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { ASKS, makeHostileInstaller } from "./hostile-installer.ts";

const WORKER = `
from svc import Endpoint

@Endpoint(name="looks", workers=(0, 1))
def looks(path, write=False):
    try:
        with open(path, "a" if write else "r") as file:
            return "done"
    except OSError as error:
        return f"refused: {error}"
`;

function limited(t: TestContext, dir: string, env: Record<string, string> = {}) {
  const start = [SVC, "platform", "start", "--foreground", "--port", "0"];
  const child = spawn("setpriv", ["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", ...start], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dir, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  const listening = new Promise<string | undefined>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (data) => {
        said += data;
        const url = /Platform at (\S+)/.exec(said)?.[1];
        if (url !== undefined) resolve(url);
      });
    }
    void ended.then(() => resolve(undefined));
  });
  t.after(async () => {
    child.kill("SIGQUIT");
    await ended;
  });
  return { ended, listening, said: () => said };
}

/** Deploys the only endpoint; `call` gives its output. */
async function deployed(t: TestContext, platform: ReturnType<typeof limited>, main: string) {
  const url = await platform.listening;
  assert.ok(url, platform.said());
  // What it says comes by two pipes, in no order.
  await eventually(async () => assert.match(platform.said(), /shown only now: \S+\n/));
  const apiKey = /shown only now: (\S+)/.exec(platform.said())![1]!;
  const env = { PLATFORM_URL: url, PLATFORM_API_KEY: apiKey };
  const cwd = project(t, { "main.py": main });
  const deploy = await svc(["deploy"], { cwd, env });
  assert.equal(deploy.code, 0, `${deploy.stdout}${deploy.stderr}${platform.said()}`);
  const status = await svc(["status"], { cwd, env });
  const endpoint = /\/v2\/[\w-]+/.exec(deploy.stdout + status.stdout)?.[0];
  assert.ok(endpoint, deploy.stdout + status.stdout);
  const call = async <T>(input: object): Promise<T> => {
    const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    const body = JSON.stringify({ input });
    const answer = await fetch(`${url}${endpoint}/runsync`, { method: "POST", headers, body });
    const text = await answer.text();
    const { status, output } = JSON.parse(text) as { status: string; output: T };
    assert.equal(status, "COMPLETED", `${text}\n${platform.said()}`);
    return output;
  };
  return { call, svc: (...args: string[]) => svc(args, { cwd, env }) };
}

const skip = process.getuid?.() !== 0 && "needs root, whose rights it takes away";

test("strict refuses to start without namespaces and says what to do", { skip, timeout: 300_000 }, async (t) => {
  const platform = limited(t, path.join(tempDir(t), "data"), { SVC_ISOLATION: "strict" });
  assert.equal(await platform.listening, undefined, platform.said());
  assert.match(platform.said(), /lacks namespaces .*strict cannot be kept/s);
  assert.match(platform.said(), /SVC_ISOLATION=standard/);
});

test("standard says what is missing, and Landlock keeps workers from the data directory", {
  skip,
  timeout: 300_000,
}, async (t) => {
  const dataDir = path.join(tempDir(t), "data");
  const platform = limited(t, dataDir);
  const { call, svc } = await deployed(t, platform, WORKER);
  await eventually(async () => {
    assert.match(platform.said(), /Workers are kept apart less than usual: this machine lacks namespaces/);
    assert.match(platform.said(), /info .*missing="?namespaces/);
  });
  const status = await svc("status", "looks");
  assert.match(status.stdout, /isolation: landlock.*missing: namespaces/);
  const looks = (input: object) => call<string>(input);
  for (const name of ["platform.db", "secret.key"]) {
    assert.match(await looks({ path: path.join(dataDir, name) }), /^refused/);
  }
  assert.match(await looks({ path: "/etc/shadow" }), /^refused/);
  assert.equal(await looks({ path: "/etc/passwd" }), "done");
  for (const file of ["/etc/passwd", path.join(ROOT, "package.json"), "/tmp/made-by-a-worker"]) {
    assert.match(await looks({ path: file, write: true }), /^refused/);
  }
});

test("an installer that was taken over is kept from the data directory by Landlock", {
  skip,
  timeout: 300_000,
}, async (t) => {
  const home = mkdtempSync(path.join(homedir(), ".svc-test-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  writeFileSync(path.join(home, "of-the-user"), "a key");
  const dir = tempDir(t);
  const { bin, outside } = makeHostileInstaller(dir, home);
  const platform = limited(t, path.join(dir, "data"), { PATH: `${bin}:${process.env.PATH}` });
  const { call } = await deployed(t, platform, ASKS);
  const { uid, dial, capabilities, ...attacks } = await call<Record<string, string>>({});
  // Without the right to be another user; the socket can be dialled, and asks for a token then.
  assert.deepEqual([Number(uid), dial?.slice(0, 4)], [0, "done"]);
  assert.match(capabilities!, /^[0,]+$/);
  for (const [name, became] of Object.entries(attacks)) assert.match(became, /^refused/, name);
  assert.deepEqual(readdirSync(outside), []);
});
