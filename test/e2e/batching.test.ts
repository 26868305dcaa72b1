/** `svc.batched` on a real platform: jobs and requests that share a call, and what happens to one of them alone. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const WORKER = (folder: string) => `
import asyncio, os, signal
import svc
from svc import Endpoint, Retries

FOLDER = ${JSON.stringify(folder)}

def note(name, x):
    with open(os.path.join(FOLDER, name), "a") as out:
        out.write(f"{len(x)}\\n")

def first_time(name):
    try:
        open(os.path.join(FOLDER, name), "x").close()
        return True
    except FileExistsError:
        return False

@Endpoint(name="sync", workers=(0, 1), retries=Retries(1, delay="10ms", on=(ConnectionError,)))
@svc.batched(max_size=4, wait_ms=5000)
def sync(x: list[int], y: list[float] = 0.5) -> list[dict]:
    note("sync", x)
    if 99 in x:
        return [{}]
    if 50 in x and first_time("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if 60 in x and first_time("raised"):
        raise ConnectionError("away")
    return [ValueError(f"odd {a}") if a < 0 else {"x": a, "sum": a + b} for a, b in zip(x, y)]

@Endpoint(name="model", workers=(0, 1))
class Model:
    @svc.batched(max_size=3, wait_ms=5000)
    async def predict(self, text: list[str]) -> list[str]:
        note("model", text)
        await asyncio.sleep(0)
        return [each.upper() for each in text]

api = Endpoint(name="api", workers=(0, 1))

@api.post("/double")
@svc.batched(max_size=3, wait_ms=5000)
def double(n: list[int]) -> list[int]:
    note("api", n)
    return [2 * each for each in n]
`;

test("Callers send one input and get one result; a batch is shared by jobs, and by requests; one that fails, is cancelled or lost is none of the others' business", async (t) => {
  const platform = await startPlatform(t);
  const [, example] = /```python\n([\s\S]*?)```/.exec(
    readFileSync(path.join(ROOT, "docs/reference/batching.md"), "utf8"),
  )!;
  const cwd = project(t, { "worker.py": WORKER(platform.shared), "example.py": example! });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stderr);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const submit = async (input: object) =>
    (await platform.call(`${urls.sync}/run`, { body: { input } })).json.id as string;
  const end = async (id: string) => (await platform.call(`${urls.sync}/status-sync/${id}`)).json;
  const together = async (...inputs: object[]) => Promise.all((await Promise.all(inputs.map(submit))).map(end));
  const sizes = (name: string) => readFileSync(path.join(platform.shared, name), "utf8").trim().split("\n").map(Number);

  const four = await together({ x: 1 }, { x: 2, y: 1 }, { x: "3" }, { x: 4 });
  assert.deepEqual(
    four.map(({ output }) => output?.sum),
    [1.5, 3, 3.5, 4.5],
    JSON.stringify(four),
  );
  assert.deepEqual(sizes("sync"), [4]);

  const odd = await together({ x: 1 }, { x: -1 }, { x: 2 }, { x: 3 });
  assert.deepEqual(
    odd.map(({ status }) => status),
    ["COMPLETED", "FAILED", "COMPLETED", "COMPLETED"],
  );
  assert.match(odd[1].error, /"ValueError".*odd -1/);
  for (const job of await together({ x: 99 }, { x: 1 }, { x: 2 }, { x: 3 })) {
    assert.match(job.error, /sync\(\) was given 4 inputs and returned 1 results/);
  }
  const [bad] = await together({ x: "many" });
  assert.match(bad.error, /x: /, "what does not fit is refused before it is in a batch");

  for (const x of [50, 60]) {
    const jobs = await together({ x }, { x: 1 }, { x: 2 }, { x: 3 });
    assert.ok(
      jobs.every(({ status }) => status === "COMPLETED"),
      JSON.stringify(jobs),
    );
    const [counted, once] = x === 50 ? ["retries", 1] : ["attempts", 2];
    assert.ok(
      jobs.every((job) => job[counted] === once),
      JSON.stringify(jobs),
    );
  }

  const before = sizes("sync").length;
  const waiting = await Promise.all([submit({ x: 1 }), submit({ x: 2 })]);
  await eventually(async () => {
    for (const id of waiting)
      assert.equal((await platform.call(`${urls.sync}/status/${id}`)).json.status, "IN_PROGRESS");
  });
  assert.equal((await platform.call(`${urls.sync}/cancel/${waiting[0]}`, { method: "POST" })).json.status, "CANCELLED");
  writeFileSync(path.join(cwd, "worker.py"), `${WORKER(platform.shared)}# changed\n`);
  const again = platform.svc(["deploy"], { cwd });
  assert.deepEqual(
    (await end(waiting[1]!)).output,
    { x: 2, sum: 2.5 },
    "it is finished by the worker that is replaced",
  );
  assert.equal((await again).code, 0);
  assert.deepEqual(sizes("sync").slice(before), [1]);

  const upper = await Promise.all(
    ["a", "b", "c"].map((text) => platform.call(`${urls.model}/runsync`, { body: { input: { text } } })),
  );
  assert.deepEqual(
    upper.map(({ json }) => json.output),
    ["A", "B", "C"],
  );
  const doubled = await Promise.all([1, 2, 3].map((n) => platform.call(`${urls.api}/double`, { body: { n } })));
  assert.deepEqual(
    doubled.map(({ json }) => json),
    [2, 4, 6],
  );
  assert.deepEqual([sizes("model"), sizes("api")], [[3], [3]]);
  const wrong = await platform.call(`${urls.api}/double`, { body: { n: "many" } });
  assert.equal(wrong.status, 422);
  const called = await platform.svc(["call", "lengths", "text=hello", "scale=2"], { cwd });
  assert.equal(JSON.parse(called.stdout), 10, "the example of the page");
});
