import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, startPlatform } from "./platform.ts";

const SOURCE = `
from svc import Endpoint

api = Endpoint(name="api")

@Endpoint(name="hello")
def hello() -> str:
    return "hello"

@api.get("/")
def home() -> str:
    return "home"
`;

test("Who waits for code that cannot start is told why at once; jobs of /run wait for code that can", async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, { "worker.py": `${SOURCE}\nraise RuntimeError("broken at import")\n` });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  const broken = await svc("deploy");
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /broken at import/);
  const url = async (name: string) => (await platform.endpoints()).find((one) => one.name === name)!.url;
  const hello = await url("hello");

  const waits = await platform.call(`${hello}/run`, { body: { input: {} } });
  // Each comes while the code is not tried again, or waits for a try and its failure: never for its whole time.
  for (let i = 0; i < 3; i++) {
    const answer = await platform.call(`${hello}/runsync?wait=300000`, { body: { input: {} } });
    assert.equal(answer.json.status, "FAILED", answer.text);
    assert.match(answer.text, /BootFailed.*broken at import/);
    const page = await platform.call(await url("api"));
    assert.equal(page.status, 502, page.text);
    assert.match(page.text, /broken at import.*BOOT_FAILED/);
  }
  const status = await platform.call(`${hello}/status/${waits.json.id}`);
  assert.equal(status.json.status, "IN_QUEUE", status.text);

  writeFileSync(path.join(dir, "worker.py"), SOURCE);
  const mended = await svc("deploy");
  assert.equal(mended.code, 0, mended.stderr);
  await eventually(async () => {
    const done = await platform.call(`${hello}/status/${waits.json.id}`);
    assert.equal(done.json.output, "hello", done.text);
  });
});
