// May take 15 minutes.
/** The example applications, deployed as their READMEs say and called by a user's programs. */
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { inflateSync } from "node:zlib";
import { Endpoint } from "../../src/client/endpoint.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { suiteContext } from "../suite-context.ts";
import { environment, execute, kernelOf } from "./notebook/kernel.ts";
import { ROOT, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

let platform: TestPlatform;

/** A copy of the example, deployed. `undefined` when it needs packages and there is no index here. */
async function deployed(t: TestContext, example: string) {
  const cwd = path.join(tempDir(t), example);
  cpSync(path.join(ROOT, "examples", example), cwd, { recursive: true });
  // Where this machine's users have said how the package index is reached.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PIP|UV)_|_proxy$/i.test(name)),
  ) as Record<string, string>;
  const deploy = await platform.svc(["deploy"], { cwd, env });
  if (deploy.code !== 0 && /package index cannot be reached/.test(deploy.stderr)) {
    return void t.skip("no package index here");
  }
  assert.equal(deploy.code, 0, deploy.stdout + deploy.stderr);
  const all = await platform.endpoints();
  const endpoint = (name: string) => {
    const { url } = all.find((one) => one.name === name)!;
    return new Endpoint({ url, apiKey: platform.key });
  };
  const python = (...args: string[]) =>
    runProcess("python3", args, {
      cwd,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        PYTHONPATH: path.join(ROOT, "python/src"),
        PYTHONDONTWRITEBYTECODE: "1",
        PLATFORM_URL: platform.url,
        PLATFORM_API_KEY: platform.key,
      },
    });
  const svc = async (...args: string[]) => {
    const { code, stdout, stderr } = await platform.svc(args, { cwd });
    assert.equal(code, 0, `svc ${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };
  return { platform, cwd, endpoint, python, svc };
}

describe("Every example works as its README says", () => {
  const suite = suiteContext();
  before(async () => {
    platform = await startPlatform(suite);
  });

  test("pipeline: three endpoints with different dependencies call each other's functions", async (t) => {
    const on = await deployed(t, "pipeline");
    if (on === undefined) return;
    const api = on.endpoint("reports");
    const log = readFileSync(path.join(on.cwd, "log.yaml"), "utf8");
    assert.deepEqual(await api.post("/outliers", { log }), {
      cellar: [],
      greenhouse: [{ at: "2024-05-01T10:00:00", value: 41 }],
    });
    const page = await api.request("POST", "/report", { body: { log, title: "May <1st>" } });
    assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
    const html = await page.text();
    assert.match(html, /<h1>May &lt;1st&gt;<\/h1>/);
    assert.match(html, /3 readings from 2024-05-01 06:00:00 to 2024-05-01 12:00:00:\nmean 11.03/);
    assert.match(html, /41.0 at 2024-05-01 10:00:00 is far off/);

    const refused = api.post("/outliers", { log: "just a text" });
    await assert.rejects(refused, { status: 422, body: { error: "the log must map sensors to their values" } });

    const readings = await on.endpoint("readings").runsync({ log: "s: {2024-05-01 06:00:00: 1}" });
    assert.deepEqual(
      readings,
      [{ sensor: "s", at: "2024-05-01T06:00:00", value: 1 }],
      "plain JSON for callers outside",
    );
  });

  test("text-stream: invented words arrive one by one as server-sent events", async (t) => {
    const on = await deployed(t, "text-stream");
    assert.ok(on);
    const api = on.endpoint("text-stream");
    const invented = async (body: object) => {
      const at: number[] = [];
      const words: string[] = [];
      for await (const { event, data } of api.events("POST", "/generate", { body })) {
        if (event === "message") words.push((JSON.parse(data) as { token: string }).token);
        at.push(performance.now());
        if (event === "done") assert.deepEqual(JSON.parse(data), { words: words.length });
        if (event === "error") return data;
      }
      return { text: words.join(""), spreadMs: at.at(-1)! - at[0]! };
    };
    const first = await invented({ prompt: "the cat", words: 60, seed: 7 });
    assert.ok(typeof first === "object");
    assert.equal(first.text.trim().split(" ").length, 60);
    assert.ok(first.spreadMs > 200, `60 words of 20 ms each came within ${first.spreadMs} ms: they were held back`);
    const again = await Promise.all([1, 2].map(() => invented({ prompt: "the cat", words: 60, seed: 7 })));
    for (const one of again) assert.equal(typeof one === "object" && one.text, first.text);
    assert.match(String(await invented({ words: 0 })), /words is 1 to 500/);
    assert.deepEqual(Object.keys(await api.get<object>("/health")), ["status", "pairs"]);

    const abort = new AbortController();
    await assert.rejects(async () => {
      for await (const _ of api.events("POST", "/generate", { body: { words: 500 }, signal: abort.signal })) {
        abort.abort(new Error("enough"));
      }
    }, /enough/);

    const code = 'from text_stream import generate; print(sum(1 for _ in generate("the king", words=5)))';
    const { stdout, stderr } = await on.python("-c", code);
    assert.equal(stdout.trim(), "6", stderr);
  });

  test("batch: a script maps a function over 1,000 items and gets every result in order", async (t) => {
    const on = await deployed(t, "batch");
    assert.ok(on);
    const { code, stdout, stderr } = await on.python("batch.py", "picture.png");
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^picture\.png: 1000 rows in [\d.]+ s$/m);
    assert.match(stderr, /^1000 of 1000 rows$/m);
    const picture = readFileSync(path.join(on.cwd, "picture.png"));
    assert.equal(picture.subarray(0, 8).toString("latin1"), "\x89PNG\r\n\x1a\n");
    const [width, height] = [picture.readUInt32BE(16), picture.readUInt32BE(20)];
    assert.deepEqual([width, height], [400, 1000]);
    const data = picture.indexOf("IDAT");
    const pixels = inflateSync(picture.subarray(data + 4, data + 4 + picture.readUInt32BE(data - 4)));
    assert.equal(pixels.length, (width + 1) * height);

    const local = await on.python("-c", "import mandelbrot as m; print([m.row.local(y).hex() for y in (0, 500, 999)])");
    const rows = JSON.parse(local.stdout.replaceAll("'", '"')) as string[];
    for (const [i, y] of [0, 500, 999].entries()) {
      const start = y * (width + 1) + 1;
      assert.equal(pixels.subarray(start, start + width).toString("hex"), rows[i], `row ${y}`);
    }
    const { jobs } = await on.endpoint("mandelbrot").health();
    assert.deepEqual([jobs.completed, jobs.failed, jobs.inQueue], [1000, 0, 0]);
  });

  test("chat: an OpenAI client's calls are answered by a stand-in for a model, whole and as a stream", async (t) => {
    const on = await deployed(t, "chat");
    assert.ok(on);
    const { url } = (await platform.endpoints()).find(({ name }) => name === "chat")!;
    const messages = [{ role: "user", content: "what does a worker" }];
    const ask = (more: object) =>
      fetch(`${url}/openai/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}` },
        body: JSON.stringify({ model: "stand-in", messages, ...more }),
      });
    const whole = await (await ask({ max_tokens: 7 })).json();
    const said = whole.choices[0].message.content as string;
    assert.deepEqual([said.split(" ").length, whole.usage.completion_tokens], [7, 7]);
    const lines = (await (await ask({ max_tokens: 7, stream: true })).text()).split("\n").filter((line) => line !== "");
    assert.equal(lines.pop(), "data: [DONE]");
    const pieces = lines.map((line) => JSON.parse(line.slice("data: ".length)).choices[0].delta.content ?? "");
    assert.equal(pieces.join("").trim(), said, "the same question gets the same answer, piece by piece");
  });

  test("thumbnails: pictures of a volume become one, by way of another endpoint for each of them", async (t) => {
    const on = await deployed(t, "thumbnails");
    if (on === undefined) return;
    for (const name of ["overview.png", "endpoint.png"]) {
      await on.svc("volume", "put", "pictures", path.join(ROOT, "docs/console", name));
    }
    const sheet = await on.svc("call", "sheet", '{"names": ["overview.png", "endpoint.png"], "side": 100}');
    const { width, height } = JSON.parse(sheet);
    assert.ok(width > 100 && width <= 200, `${width}`);
    assert.ok(height > 20 && height <= 100, `${height}`);
    await on.svc("volume", "get", "pictures", "sheet.jpg");
    assert.equal(readFileSync(path.join(on.cwd, "sheet.jpg")).subarray(0, 3).toString("hex"), "ffd8ff");
    assert.match(await on.svc("volume", "ls", "pictures", "thumbs"), /overview\.jpg[\s\S]*|endpoint\.jpg/);
    await assert.rejects(on.endpoint("thumbnail").runsync({ name: "../x.png" }), /name is that of a file/);
  });

  test("fastapi-app: an application that knows nothing of svc answers as it does elsewhere, its own pages included", async (t) => {
    const on = await deployed(t, "fastapi-app");
    if (on === undefined) return;
    const api = on.endpoint("units");
    assert.deepEqual(await api.post("/convert/km", { amount: 2, unit: "mi" }), { amount: 3.218688, unit: "km" });
    await assert.rejects(api.post("/convert/parsec", { amount: 2, unit: "mi" }), { status: 404 });
    await assert.rejects(api.post("/convert/km", { amount: "much" }), { status: 422 });
    const { info } = await api.get<{ info: { title: string } }>("/openapi.json");
    assert.equal(info.title, "Units");
  });

  test("scheduled-job: a tick leaves its report where a route of another endpoint finds it", async (t) => {
    const on = await deployed(t, "scheduled-job");
    assert.ok(on);
    assert.match(await on.svc("schedule"), /hourly/);
    assert.equal((await on.svc("call", "report", "--route", "GET /latest")).trim(), "{}");
    await on.svc("schedule", "run", "hourly");
    await eventually(async () => {
      const latest = JSON.parse(await on.svc("call", "report", "--route", "GET /latest"));
      assert.ok(latest.at > 0 && latest.free_gb > 0, JSON.stringify(latest));
    });
  });

  test("notebook: its cells deploy the function that one of them declares, and call it", async (t) => {
    const bin = await environment(t);
    if (bin === undefined) return;
    const { cells } = JSON.parse(readFileSync(path.join(ROOT, "examples/notebook/primes.ipynb"), "utf8"));
    const code = cells.filter(({ cell_type: kind }: { cell_type: string }) => kind === "code");
    const sources = code.map(({ source }: { source: string[] }) => source.join(""));
    const cwd = path.join(tempDir(t), "notebook");
    mkdirSync(cwd);
    const env = { ...kernelOf(platform, bin), SVC_COMMAND: SVC };
    const outputs = await execute(bin, sources, cwd, env);
    assert.deepEqual(
      outputs.flat().flatMap(({ ename, evalue }) => (ename === undefined ? [] : [`${ename}: ${evalue}`])),
      [],
    );
    const shown = outputs.map((cell) => cell.flatMap(({ data }) => data?.["text/plain"] ?? []).join());
    assert.deepEqual(shown.slice(-2), ["168", "9592"]);
  });
});
