/** A worker that means harm and its volumes, as root and as an ordinary user: what is read-only stays so, deployed and under `svc run`. */
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { startSvcRun } from "../dev/svc-run.ts";
import { project, startPlatform } from "../e2e/platform.ts";

const WORKER = `
import ctypes, os
from svc import Endpoint, Volume

libc = ctypes.CDLL(None, use_errno=True)

def tried(work):
    try:
        return str(work())
    except OSError as error:
        return error.strerror

def remount():
    if libc.mount(b"none", b"/models", None, 32 | 4096, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

@Endpoint(name="use", volumes={"/models": Volume("models", read_only=True), "/out": "out"})
def use():
    around = os.path.dirname(os.environ["XDG_CACHE_HOME"])
    with open("/out/kept", "w") as out:
        out.write("kept")
    return {
        "read": open("/models/weights").read(),
        "write": tried(lambda: open("/models/weights", "w")),
        "make": tried(lambda: os.mkdir("/models/new")),
        "remove": tried(lambda: os.unlink("/models/weights")),
        "remount": tried(remount),
        "beside": tried(lambda: sorted(os.listdir(around))),
        "up": tried(lambda: os.mkdir(os.path.join(around, "new"))),
        "cached": tried(lambda: os.makedirs(os.environ["HF_HOME"], exist_ok=True)),
    }
`;

test("A worker changes no volume that it may only read, and no folder beside its volumes", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "main.py": WORKER });
  const put = async (...environment: string[]) => {
    writeFileSync(path.join(cwd, "weights"), "weights");
    for (const args of [
      ["create", "models"],
      ["put", "models", "weights"],
    ]) {
      const { code, stderr } = await platform.svc(["volume", ...args, ...environment], { cwd });
      assert.equal(code, 0, stderr);
    }
  };
  const check = (output: Record<string, string>) => {
    const { read, remount, ...refused } = output;
    assert.equal(read, "weights");
    assert.match(remount!, /not permitted|denied/i);
    assert.equal(refused.cached, "None");
    assert.equal(refused.beside, "['svc-cache']");
    for (const act of ["write", "make", "remove", "up"])
      assert.match(refused[act]!, /Read-only file system|denied/, act);
  };
  await put();
  const { code, stderr } = await platform.svc(["deploy"], { cwd });
  if (/this machine lacks namespaces/.test(stderr)) return t.skip(stderr);
  assert.equal(code, 0, stderr);
  const [endpoint] = await platform.endpoints();
  const deployed = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  check(deployed.json.output);

  // The same functions under svc run, in an environment of their own: what its volume holds is put there as anywhere.
  const volumes = path.join(platform.dataDir, "volumes/app");
  const local = await startSvcRun(t, platform, cwd);
  const [, route] = /POST \/(\S+runsync)/.exec(local.output())!;
  const call = () =>
    fetch(`${local.url}/${route}`, { method: "POST", body: '{"input":{}}' }).then((answer) => answer.json());
  await call();
  const live = readdirSync(volumes).find((name) => name !== "production")!;
  mkdirSync(path.join(volumes, live, "models"), { recursive: true });
  writeFileSync(path.join(volumes, live, "models/weights"), "weights");
  const answer = (await call()) as { output: Record<string, string> };
  check(answer.output);
  assert.equal(readFileSync(path.join(volumes, live, "out/kept"), "utf8"), "kept");
  assert.notEqual(live, "production");
});
