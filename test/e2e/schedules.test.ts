/** Endpoints that are called by their schedules: on a real platform that is killed, and from the command line. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, ROOT, startPlatform, type TestPlatform } from "./platform.ts";

const WORKER = (file: string, every: string) => `
import svc
from svc import Endpoint, Retries

@Endpoint(name="beat", workers=(0, 2), every="${every}", schedule_input={"n": 7}, retries=Retries(1, delay="10ms"))
def beat(n: int):
    with open(${JSON.stringify(file)}, "a") as out:
        out.write(svc.context().job_id + "\\n")
    return n

@Endpoint(name="yearly", schedule="0 0 1 1 *", timezone="Europe/Berlin")
def yearly():
    return "new"

@Endpoint(name="plain")
def plain():
    return 1
`;

test("Ticks make jobs over a SIGKILL of the platform, each once; svc schedule lists, pauses, resumes and runs; undeploy ends them", async (t) => {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "effects.txt");
  const [, example] = /```python\n([\s\S]*?)```/.exec(
    readFileSync(path.join(ROOT, "docs/reference/schedules.md"), "utf8"),
  )!;
  const cwd = project(t, { "worker.py": WORKER(effects, "1s"), "example.py": example! });
  let on: TestPlatform = platform;
  const svc = async (...args: string[]) => {
    const done = await on.svc(args, { cwd });
    assert.equal(done.code, 0, done.stderr);
    return done.stdout;
  };
  const schedules = async () => {
    const all = JSON.parse(await svc("schedule", "list", "--json")) as {
      name: string;
      schedule: { lastTick: number };
    }[];
    return Object.fromEntries(all.map((one) => [one.name, one.schedule])) as Record<string, Record<string, unknown>>;
  };
  await svc("deploy");
  const ran = () => readFileSync(effects, "utf8").trim().split("\n");
  await eventually(() => assert.ok(ran().length >= 2));
  await platform.kill();
  const before = ran().length;
  on = await platform.restart();
  await eventually(() => assert.ok(ran().length >= before + 2));

  const { beat, yearly, report, plain } = await schedules();
  assert.equal(plain, undefined);
  assert.deepEqual([beat!.text, beat!.input, beat!.paused], ["every 1s", { n: 7 }, false]);
  assert.deepEqual([yearly!.text, yearly!.lastTick], ["0 0 1 1 * (Europe/Berlin)", null]);
  assert.match(new Date(yearly!.next as number).toISOString(), /-12-31T23:00:00\.000Z$/);
  assert.equal(report!.text, "30 6 * * MON-FRI (Europe/Berlin)", "the example of the page");
  const [, shown] = /^yearly .*?(\d{4}-\d\d-\d\d \d\d:\d\d)/m.exec(await svc("schedule"))!;
  assert.equal(new Date(shown!).getTime(), yearly!.next, "local time");

  assert.match(await svc("schedule", "pause", "beat"), /The schedule of beat is paused\./);
  const atPause = (await schedules()).beat!.lastTick;
  writeFileSync(path.join(cwd, "worker.py"), `${WORKER(effects, "1s")}# changed\n`);
  await svc("deploy");
  const id = /^(\S+) is in the queue/.exec(await svc("schedule", "run", "yearly"))![1]!;
  assert.match(await svc("schedule"), /^beat .* paused /m);
  assert.equal(JSON.parse(await eventually(() => svc("jobs", "output", id))), "new");
  assert.equal((await schedules()).beat!.lastTick, atPause, "it stays paused over a deploy");
  assert.match(await svc("schedule", "resume", "beat"), /The schedule of beat is on\. Next: /);
  await eventually(async () => assert.ok(((await schedules()).beat!.lastTick as number) > (atPause as number)));

  for (const [args, said] of [
    [["schedule", "pause", "plain"], /Endpoint "plain" has no schedule/],
    [["schedule", "pause", "beta"], /Did you mean beat\?/],
  ] as const) {
    const refused = await on.svc(args, { cwd });
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, said);
  }
  writeFileSync(path.join(cwd, "worker.py"), WORKER(effects, "1h"));
  const plan = await on.svc(["deploy", "--dry-run"], { cwd });
  assert.match(plan.stdout + plan.stderr, /schedule every 1s → every 1h/);
  await svc("undeploy", "beat", "--force");
  assert.equal((await schedules()).beat, undefined);
  const ids = ran();
  assert.equal(new Set(ids).size, ids.length, "no job ran twice");
});
