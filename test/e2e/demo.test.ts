import assert from "node:assert/strict";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { removeFolder } from "../remove-folder.ts";
import { ROOT } from "./platform.ts";

test("make demo deploys the tutorial and calls every endpoint; twice works; make demo-stop ends it", async (t) => {
  const home = mkdtempSync(path.join(tmpdir(), "svc-demo-"));
  const dir = path.join(home, "demo");
  const env = {
    ...process.env,
    SVC_DEMO_DIR: dir,
    NO_COLOR: "1",
    PLATFORM_URL: undefined,
    PLATFORM_API_KEY: undefined,
  };
  const demo = (command: string) =>
    runProcess(process.execPath, [path.join(ROOT, "examples/demo.ts"), command], { env, cwd: ROOT });
  t.after(async () => {
    await demo("stop");
    await removeFolder(home);
  });

  for (const turn of ["first", "second"]) {
    const result = await demo("start");
    assert.equal(result.code, 0, `${turn}: ${result.stdout}${result.stderr}`);
    assert.match(result.stdout, /"service": "text-analysis"/, "GET /health");
    assert.match(result.stdout, /"path": "\/analyze"/, "GET /info");
    assert.match(result.stdout, /"sentence_count": \d+/, "POST /analyze");
    assert.match(result.stdout, /"device": "CPU"/, "POST /sentiment on the emulated GPU");
    assert.match(result.stdout, /"entropy_bits": [\d.]+/, "the queue-based function with numpy");
  }
  const stopped = await demo("stop");
  assert.equal(stopped.code, 0, stopped.stderr);
  assert.ok(!existsSync(dir));
});
