/** Names that others gave: projects of the same family, and endpoints that are found without their source. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

test("The example of docs/reference/porting.md is deployed after its sed, with notes, and runs", async (t) => {
  const platform = await startPlatform(t);
  const page = readFileSync(path.join(ROOT, "docs/reference/porting.md"), "utf8");
  const example = page.match(/```python\n(.*?)```/s)![1]!;
  const theirs = example.replace("from svc import", "from runpod_flash import");
  const cwd = project(t, { "worker.py": theirs });
  const before = await platform.svc(["build"], { cwd });
  assert.notEqual(before.code, 0);
  assert.match(before.stderr, /What comes from runpod_flash is not declared for svc[\s\S]*Write from svc import/);
  const sed = page.match(/```sh\n(.*?)\n/s)![1]!;
  execFileSync("sh", ["-c", sed], { cwd });
  const deploy = await platform.svc(["deploy"], { cwd });
  if (/lacks namespaces/.test(deploy.stderr)) return t.skip(`this machine mounts no volumes: ${deploy.stderr}`);
  assert.equal(deploy.code, 0, deploy.stderr);
  const said = deploy.stdout + deploy.stderr;
  for (const note of ["datacenter= has no meaning here", "datacenter= of a NetworkVolume", "workers get the first"])
    assert.ok(said.includes(note), `${note}: ${said}`);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  assert.deepEqual(Object.keys(urls).sort(), ["counter", "resize"]);
  const run = async (name: string, input: object) =>
    (await platform.call(`${urls[name]}/runsync`, { body: { input } })).json.output;
  assert.deepEqual(await run("resize", { payload: { width: 8 } }), { mode: "slow", width: 4, has_volume: true });
  assert.equal(await run("counter", { text: "a b c" }), 3);
});

const SHOP = `
from datetime import date
from typing import Iterator

from svc import Endpoint

@Endpoint("plus", workers=(0, 2))
def plus(x: int, y: int = 1) -> int:
    print(f"adding {x} and {y}")
    if x == 13:
        raise ValueError("unlucky")
    return x + y

@Endpoint("days")
async def days(n: int) -> Iterator[date]:
    for day in range(1, n + 1):
        yield date(2026, 1, day)

@Endpoint("model")
class Model:
    def embed(self, text: str) -> bytes:
        return text.encode()
    def size(self, text: str, *, unit: str = "chars") -> str:
        return f"{len(text)} {unit}"

api = Endpoint("api")

@api.post("/analyze/{kind}")
def analyze(kind: str, text: str) -> dict:
    return {"kind": kind, "words": len(text.split())}

@Endpoint("caller")
def caller(job_id: str) -> dict:
    import svc
    from svc import CallError
    def why(call):
        try:
            return call()
        except CallError as error:
            return f"{type(error).__name__}: {error}"
    return {
        "own": svc.function("plus")(20, y=1),
        "by_place": list(svc.function("shop/production/plus").map([1, 2])),
        "elsewhere": why(lambda: svc.function("other/production/plus")(1)),
        "job": svc.job(job_id, endpoint="plus").result(),
        "no_endpoint": why(lambda: svc.job(job_id)),
        "logs": why(lambda: svc.job(job_id, endpoint="plus").logs()),
        "circle": why(lambda: svc.function("caller")("x")),
    }
`;

/** Runs in a folder that has none of the sources. */
const OUTSIDE = `
import asyncio, json, sys, svc

def why(call):
    try:
        return call()
    except (svc.CallError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"

plus = svc.function("shop/production/plus")
days = svc.function("shop/production/days")
analyze = svc.function("shop/production/api")
job = plus.spawn(4, y=5)
found = svc.job(job.id)
failed = plus.spawn(13)
why(failed.wait)

async def later():
    days_found = [day.isoformat() async for day in days.stream_aio(2)]
    spawned = await plus.spawn_aio(1)
    again = await svc.job_aio(spawned.id, endpoint="shop/production/plus")
    return [await plus(1), await plus.aio(2), days_found, await spawned, await again.result_aio(),
            [x async for x in plus.map_aio([1, 2])], sorted([x async for x in plus.starmap_aio([(1, 2), (3, 4)], ordered=False)])]

print(json.dumps({
    "call": [plus(1), plus(1, 2), plus(x=3)],
    "stream": [day.isoformat() for day in days.stream(2)],
    "iterated": [day.day for day in days(3)],
    "method": svc.function("shop/production/model", method="embed")("a").decode(),
    "keyword_only": svc.function("shop/production/model", method="size")("abc", unit="letters"),
    "route": [analyze(kind="short", text="a b"), svc.function("shop/production/api", route="POST /analyze/{kind}")(kind="k", text="")],
    "map": list(plus.map(range(3))),
    "job": [found.endpoint, found.result(timeout=60), found.status(), found.cancel(), found.logs()],
    "failed": [svc.job(failed.id).status(), failed.logs()[-1]],
    "async": asyncio.run(later()),
    "wrong": [why(call) for call in (
        lambda: plus(1, z=2),
        lambda: plus(),
        lambda: plus.stream(1),
        lambda: svc.function("shop/production/pluss")(1),
        lambda: svc.function("shop/prod/plus")(1),
        lambda: svc.function("shpo/production/plus")(1),
        lambda: svc.function("shop/plus"),
        lambda: svc.function("shop/production/model")("a"),
        lambda: svc.function("shop/production/model", method="embedd")("a"),
        lambda: svc.function("shop/production/plus", method="x")("a"),
        lambda: svc.function("shop/production/api", route="POST /analyse")(),
        lambda: analyze.spawn(kind="a", text=""),
        lambda: svc.job("00000000-0000-0000-0000-000000000000-l1"),
        lambda: svc.function("shop/production/plus", api_key="svc_wrong")(1),
    )],
}))
`;

test("Functions and jobs are found by name: without their source, from a script and from a worker", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "work.py": SHOP }, "shop");
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const outside = project(t, { "script.py": OUTSIDE }, "elsewhere");
  const env = { PATH: process.env.PATH, PYTHONPATH: path.join(ROOT, "python/src"), PLATFORM_URL: platform.url };
  const run = (code: readonly string[], more: Record<string, string> = {}) =>
    runProcess("python3", code, { cwd: outside, env: { ...env, ...more } });

  const { code, stdout, stderr } = await run(["script.py"], { PLATFORM_API_KEY: platform.key });
  assert.equal(code, 0, stderr);
  const { wrong, failed, ...found } = JSON.parse(stdout);
  assert.deepEqual(found, {
    call: [2, 3, 4],
    stream: ["2026-01-01", "2026-01-02"],
    iterated: [1, 2, 3],
    method: "a",
    keyword_only: "3 letters",
    route: [
      { kind: "short", words: 2 },
      { kind: "k", words: 0 },
    ],
    map: [1, 2, 3],
    job: ["plus", 9, "COMPLETED", "COMPLETED", ["adding 4 and 5"]],
    async: [2, 3, ["2026-01-01", "2026-01-02"], 2, 2, [2, 3], [3, 7]],
  });
  assert.equal(failed[0], "FAILED");
  assert.match(failed[1], /ValueError: unlucky/);
  const expected = [
    /TypeError: plus.*unexpected keyword argument 'z'/,
    /TypeError: plus.*missing a required argument: 'x'/,
    /TypeError: plus is no generator/,
    /NotDeployed: .*did you mean 'plus'\?/,
    /NotDeployed: .*no environment 'prod'.*production/,
    /NotDeployed: .*no app 'shpo'.*did you mean 'shop'\?/,
    /ValueError: 'shop\/plus' names no endpoint: write "app\/environment\/endpoint"/,
    /CallError: .*several methods: name one of them with method=, of 'embed', 'size'/,
    /CallError: .*no method 'embedd': there is 'embed'/,
    /CallError: .*runs a function, which has no methods/,
    /CallError: .*no route 'POST \/analyse': there is 'POST \/analyze\/\{kind\}'/,
    /TypeError: .*load-balanced endpoint, which has no jobs/,
    /JobNotFound: none of \d queue-based endpoints has a job/,
    /PlatformError: /,
  ];
  assert.equal(wrong.length, expected.length);
  for (const [i, pattern] of expected.entries()) assert.match(wrong[i], pattern);

  const page = readFileSync(path.join(ROOT, "docs/reference/calling.md"), "utf8");
  const example = page.match(/```python\n(import svc\n\nplus = .*?)```/s)![1]!;
  const shown = await run(["-c", `${example}\nprint(svc.job(job.id).result())`], { PLATFORM_API_KEY: platform.key });
  assert.deepEqual([shown.stdout, shown.stderr], ["4\n", ""]);

  const keyless = await run(["-c", "import svc; svc.function('shop/production/plus')(1)"], {
    SVC_CONFIG_DIR: outside,
    SVC_DATA_DIR: outside,
  });
  assert.match(keyless.stderr, /no API key for .*: set PLATFORM_API_KEY or run svc login/);

  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const { json: job } = await platform.call(`${urls.plus}/runsync`, { body: { input: { x: 7 } } });
  const called = await platform.call(`${urls.caller}/runsync`, { body: { input: { job_id: job.id } } });
  const { elsewhere, no_endpoint, logs, circle, ...own } = called.json.output;
  assert.deepEqual(own, { own: 21, by_place: [2, 3], job: 8 }, called.text);
  assert.match(elsewhere, /PlatformError: a worker's own token reaches its own environment only/);
  assert.match(no_endpoint, /name its endpoint/);
  assert.match(logs, /PlatformError: /);
  assert.match(circle, /CallCycle: .*caller → caller/);
});
