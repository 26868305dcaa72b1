/** Jobs whose function raises are tried again: on a real platform, with real workers, over a crash of both. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { hasLogged, project, ROOT, startPlatform } from "./platform.ts";

const WORKER = (folder: string) => `
import os, signal
import svc
from svc import Endpoint, Retries

class Flaky(ConnectionError):
    pass

class Odd(Exception):
    pass

def note(name):
    with open(os.path.join(${JSON.stringify(folder)}, name), "a") as out:
        out.write(f"{svc.context().attempt}\\n")
    return svc.context().attempt

@Endpoint(name="flaky", workers=(0, 2), retries=Retries(3, delay="20ms", backoff=1.0, on=(ConnectionError, "json.decoder.JSONDecodeError")))
def flaky(name: str, fails: int = 0, kind: str = "Flaky"):
    attempt = note(name)
    if kind == "json":
        import json
        json.loads("{")
    if attempt <= fails:
        raise {"Flaky": Flaky, "Odd": Odd}[kind]("away")
    return {"attempt": attempt}

@Endpoint(name="slow", workers=(0, 1), retries=Retries(2, delay="1h"))
async def slow(name: str):
    note(name)
    raise ValueError("not now")

@Endpoint(name="later", workers=(0, 1), retries=Retries(2, delay="8s"))
def later(name: str, die: bool = False):
    attempt = note(name)
    if die and attempt == 1 and len(open(os.path.join(${JSON.stringify(folder)}, name)).readlines()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if attempt == 1:
        raise ValueError("not yet")
    return attempt
`;

test("A job whose function raises is tried again as its endpoint says: /runsync waits, the end is a dead letter, cancels and ttl count", async (t) => {
  const platform = await startPlatform(t);
  const [, example] = /```python\n([\s\S]*?)```/.exec(
    readFileSync(path.join(ROOT, "docs/reference/retries.md"), "utf8"),
  )!;
  const dir = project(t, { "worker.py": WORKER(platform.shared), "example.py": example! });
  const deployed = await platform.svc(["deploy"], { cwd: dir });
  assert.equal(deployed.code, 0, deployed.stderr);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const runsync = async (input: object) => (await platform.call(`${urls.flaky}/runsync`, { body: { input } })).json;
  const attemptsOf = (name: string) => readFileSync(path.join(platform.shared, name), "utf8").trim().split("\n");

  const third = await runsync({ name: "a", fails: 2 });
  assert.deepEqual(
    [third.status, third.output, third.attempts, third.retries],
    ["COMPLETED", { attempt: 3 }, 3, undefined],
  );
  assert.equal("attempts" in (await runsync({ name: "b" })), false);

  const dead = await runsync({ name: "c", fails: 9 });
  assert.deepEqual([dead.status, dead.attempts, dead.error.includes("worker.Flaky")], ["FAILED", 4, true]);
  assert.deepEqual(attemptsOf("c"), ["1", "2", "3", "4"]);
  const named = await runsync({ name: "d", kind: "json" });
  assert.deepEqual([named.status, named.attempts], ["FAILED", 4], "a class by its dotted name");
  for (const [input, why] of [
    [{ name: "e", kind: "Odd", fails: 9 }, "Odd"],
    [{ wrong: 1 }, "wrong"],
  ] as const) {
    const job = await runsync(input);
    assert.deepEqual([job.status, job.attempts, job.error.includes(why)], ["FAILED", undefined, true], job.error);
  }

  const listed = await platform.svc(["jobs", "flaky", "--failed", "--json"], { cwd: dir });
  assert.equal(JSON.parse(listed.stdout).length, 4);
  const shown = await platform.svc(["jobs", "show", dead.id], { cwd: dir });
  assert.match(shown.stdout, /^attempts +4$/m);
  const both = await platform.svc(["jobs", "flaky", "--failed", "--status", "COMPLETED"], { cwd: dir });
  assert.equal(both.code, 2);
  assert.match(both.stderr, /--failed lists jobs that are FAILED/);
  assert.equal((await platform.svc(["jobs", "retry", dead.id], { cwd: dir })).code, 0);
  const again = await platform.call(`${urls.flaky}/status-sync/${dead.id}`);
  assert.deepEqual([again.json.status, again.json.attempts], ["FAILED", 4]);
  await hasLogged(platform, dir, ["flaky"], /attempt 2 of 4 failed: worker\.Flaky: away, again in 20ms/);

  const untilDelayed = (endpoint: string, id: string) =>
    eventually(async () => {
      const { json } = await platform.call(`${urls[endpoint]}/status/${id}`);
      assert.ok(json.nextAttemptAt, JSON.stringify(json));
      return json;
    });
  const fetched = await platform.call(`${urls.fetch}/run`, { body: { input: { url: "http://localhost:1/" } } });
  assert.ok((await untilDelayed("fetch", fetched.json.id)).attempts >= 1, "the example of the page");
  const waits = await platform.call(`${urls.slow}/run`, { body: { input: { name: "f" } } });
  const delayed = await untilDelayed("slow", waits.json.id);
  assert.deepEqual([delayed.status, delayed.attempts], ["IN_QUEUE", 1]);
  assert.equal((await platform.call(`${urls.slow}/health`)).json.jobs.inQueue, 1);
  assert.match(
    (await platform.svc(["jobs", "show", waits.json.id], { cwd: dir })).stdout,
    /^attempts +1, the next in /m,
  );
  const cancelled = await platform.call(`${urls.slow}/cancel/${waits.json.id}`, { method: "POST" });
  assert.equal(cancelled.json.status, "CANCELLED");
  const short = { input: { name: "g" }, policy: { ttl: 60_000 } };
  const past = (await platform.call(`${urls.slow}/runsync`, { body: short })).json;
  assert.deepEqual([past.status, past.attempts], ["FAILED", undefined], "the next attempt would be past its ttl");
  assert.deepEqual([attemptsOf("f"), attemptsOf("g")], [["1"], ["1"]]);
});

test("Attempts outlive a SIGKILL of platform and workers: nothing is lost, none is made twice, and losses count apart", async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, { "worker.py": WORKER(platform.shared) });
  assert.equal((await platform.svc(["deploy"], { cwd: dir })).code, 0);
  const { url, id } = (await platform.endpoints()).find(({ name }) => name === "later")!;
  const names = Array.from({ length: 10 }, (_, n) => `job-${n}`);
  const jobs = await Promise.all(
    names.map((name) => platform.call(`${url}/run`, { body: { input: { name, die: name === "job-0" } } })),
  );
  await eventually(async () => {
    const answers = await Promise.all(jobs.map(({ json }) => platform.call(`${url}/status/${json.id}`)));
    assert.ok(answers.some(({ json }) => json.nextAttemptAt !== undefined));
  });
  await platform.kill();
  const again = await platform.restart();
  const ends = await Promise.all(
    jobs.map(({ json }) => again.call(`${again.url}/v2/${id}/status-sync/${json.id}?wait=60000`)),
  );
  for (const [n, { json }] of ends.entries()) {
    assert.deepEqual(
      [json.status, json.output, json.attempts],
      ["COMPLETED", 2, 2],
      `job ${n}: ${JSON.stringify(json)}`,
    );
    const made = readFileSync(path.join(platform.shared, names[n]!), "utf8").trim().split("\n");
    assert.deepEqual(made, n === 0 ? ["1", "1", "2"] : ["1", "2"]);
    assert.equal(json.retries, n === 0 ? 1 : undefined);
  }
});
