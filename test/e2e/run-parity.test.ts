/** The same calls through `svc run` and to the deployed endpoints: what a function answers must not depend on the way. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { before, describe, test } from "node:test";
import { type RunningServer, startSvcRun } from "../dev/svc-run.ts";
import { suiteContext } from "../suite-context.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const JOBS = `
import helper
from pathlib import Path
from svc import Endpoint, enter, option, progress

SHIFT = 40
WORDS = Path(__file__).with_name("words.txt")

@Endpoint(name="add")
def add(a: int, b: int = 2) -> dict:
    """Adds."""
    return {"sum": a + b + helper.shift(SHIFT), "words": WORDS.read_text().split(), "type": type(a).__name__}

@Endpoint(name="fails")
def fails(text: str):
    helper.fail(text)

@Endpoint(name="says-error")
def says_error():
    return {"error": "not today"}

@Endpoint(name="steps")
def steps(count: int = 3):
    for n in range(count):
        yield {"step": n}

@Endpoint(name="counter")
class Counter:
    @enter(shared=True)
    def load(self):
        self.start = 4
    @enter
    def connect(self):
        self.start += 1
    def up(self, by: int = 1):
        return self.start + by
    def down(self, by: int = 1):
        return self.start - by

@Endpoint()
class Sized:
    size: str = option("small")
    def which(self):
        return self.size

Large = Sized.with_options(size="large")
`;

const HELPER = `
def shift(n):
    return n - 40

def fail(text):
    raise ValueError(f"cannot work with {text!r}")
`;

const ON = {} as { platform: TestPlatform; local: RunningServer; url: Record<string, string> };

describe("a call through svc run and the same call to the deployed endpoint", () => {
  const t = suiteContext();
  before(async () => {
    const platform = await startPlatform(t);
    const api = readFileSync(path.join(import.meta.dirname, "load-balanced/api.py"), "utf8");
    const [routes, application] = api.split("\n\nwhole_app = ");
    const asgi = `from svc import Endpoint\nwhole_app = ${application}`;
    const files = {
      "web/api.py": routes!,
      "web/asgi.py": asgi,
      "jobs.py": JOBS,
      "helper.py": HELPER,
      "words.txt": "one two\n",
    };
    const cwd = project(t, files, "shop");
    const deployed = await platform.svc(["deploy"], { cwd });
    assert.equal(deployed.code, 0, deployed.stderr);
    const url = Object.fromEntries((await platform.endpoints()).map((endpoint) => [endpoint.name, endpoint.url]));
    Object.assign(ON, { platform, url, local: await startSvcRun(t, platform, cwd) });
  });

  type Body = string | Uint8Array<ArrayBuffer> | FormData;
  interface Sent {
    readonly method?: string;
    readonly body?: Body;
    readonly type?: string;
  }

  /** Answers of both, without what names a worker, a time or a job. */
  async function both(endpoint: string, local: string, route: string, { method, body, type }: Sent = {}) {
    const headers: Record<string, string> = type === undefined ? {} : { "content-type": type };
    const init = {
      method: method ?? (body === undefined ? "GET" : "POST"),
      body,
      headers,
      redirect: "manual",
    } as const;
    const key = { ...headers, authorization: `Bearer ${ON.platform.key}` };
    const [here, there] = await Promise.all([
      fetch(ON.local.url + local, init),
      fetch(ON.url[endpoint]! + route, { ...init, headers: key }),
    ]);
    return [await seen(here), await seen(there)] as const;
  }

  async function seen(response: Response) {
    const bytes = Buffer.from(await response.arrayBuffer());
    assert.match(response.headers.get("server-timing") ?? "exec;", /exec;/);
    const own = ["content-type", "location", "x-a", "content-length", "allow"];
    const headers = Object.fromEntries(own.map((name) => [name, response.headers.get(name)]));
    const text = bytes.toString("latin1");
    return { status: response.status, headers, text: isJob(text) ? job(text) : text };
  }

  const isJob = (text: string) => /^\{"id":"(sync-)?[0-9a-f-]+/.test(text);

  function job(text: string) {
    const { status, output, error } = JSON.parse(text) as { status: string; output?: unknown; error?: string };
    const failure = error?.startsWith("{") ? (JSON.parse(error) as Record<string, unknown>) : error;
    if (typeof failure === "object") for (const name of ["worker_id", "hostname"]) delete failure[name];
    return JSON.stringify({ status, output, failure });
  }

  const json = (value: unknown): Sent => ({ body: JSON.stringify(value), type: "application/json" });
  const QUEUED: [endpoint: string, fn: string, sent: Sent][] = [
    ["add", "add", json({ input: { a: 1 } })],
    ["add", "add", json({ input: { a: "1" } })],
    ["sized", "Sized", json({ input: {} })],
    ["sized-large", "sized-large", json({ input: {} })],
    ["add", "add", json({ input: { a: 1, unknown: 2 } })],
    ["add", "add", json({ input: {} })],
    ["add", "add", json({ input: [] })],
    ["add", "add", { body: "{broken", type: "application/json" }],
    ["add", "add", { body: '{"input":{"a":1}}' }],
    ["fails", "fails", json({ input: { text: "x" } })],
    ["says-error", "says_error", json({ input: {} })],
    ["steps", "steps", json({ input: { count: 2 } })],
    ["counter", "Counter", json({ input: { by: 3 }, method: "down" })],
    ["counter", "Counter", json({ input: {}, method: "sideways" })],
    ["counter", "Counter", json({ input: {}, method: "load" })],
  ];
  for (const [endpoint, fn, sent] of QUEUED) {
    test(`POST /jobs/${fn}/runsync ${String(sent.body)} answers alike`, async () => {
      const [here, there] = await both(endpoint, `/jobs/${fn}/runsync`, "/runsync", sent);
      assert.deepEqual({ ...here, headers: {} }, { ...there, headers: {} });
    });
  }

  const form = new FormData();
  form.set("title", "grüße");
  form.set("file", new Blob([new Uint8Array(200_000)]), "a.bin");
  const ROUTED: [route: string, sent?: Sent, endpoint?: string, local?: string][] = [
    ["/items/7?tag=a&tag=b&limit=5&sort=down&q=yes"],
    ["/items/x?limit=y&sort=z"],
    ["/items/7%2f8"],
    ["/fields", json({ n: "4", color: "red", item: { name: "pen", price: 2 } })],
    ["/fields", json({ n: 1.5, color: "blue", item: {} })],
    ["/whole", json({ name: "pen" })],
    ["/raw", { body: new Uint8Array([0, 255, 10]), type: "image/png" }],
    ["/raw", { body: new Uint8Array(3_000_000), type: "application/octet-stream" }],
    ["/raw", { method: "POST" }],
    ["/files", { body: form }],
    ...["dict", "list", "str", "none", "bytes", "status", "headers", "response", "missing"].map((kind): [string] => [
      `/kind/${kind}`,
    ]),
    ["/numbers?count=20"],
    ["/raises"],
    ["/large?size=3000000"],
    ["/nowhere"],
    ["/fields", { method: "DELETE" }],
    ["/items/7", { method: "HEAD" }],
    ["/openapi.json"],
    ["/ping"],
    ["/sum", { body: new Uint8Array(1_000_000) }, "live"],
    ["/ticks?count=3&pause=0", {}, "live"],
    ["/sleep?seconds=0"],
    ["/sleep?seconds=0", {}, "threads", "/web/api/threads"],
  ];
  for (const [route, sent = {}, endpoint = "api", prefix = "/web/api"] of ROUTED) {
    test(`${sent.method ?? (sent.body === undefined ? "GET" : "POST")} ${route} of ${endpoint} answers alike`, async () => {
      const [here, there] = await both(endpoint, prefix + route, route, sent);
      const plain = (one: typeof here) => ({ ...one, text: one.text.replace(/^"w-[0-9a-f-]+"$/, "a worker") });
      assert.deepEqual(plain(here), plain(there));
    });
  }

  test("a job is followed below its function: status, stream, cancel, and unknown ones", async () => {
    const { url } = ON.local;
    const post = async (route: string, body?: unknown) => {
      const response = await fetch(url + route, { method: "POST", body: JSON.stringify(body ?? {}) });
      return { status: response.status, json: (await response.json()) as Record<string, unknown> };
    };
    const { json: queued } = await post("/jobs/steps/run", { input: { count: 2 } });
    const chunks: unknown[] = [];
    for (let status = ""; status !== "COMPLETED"; ) {
      const { json: part } = await post(`/jobs/steps/stream/${queued.id}`);
      chunks.push(...(part.stream as unknown[]));
      status = String(part.status);
    }
    assert.deepEqual(chunks, [{ output: { step: 0 } }, { output: { step: 1 } }]);
    const status = await (await fetch(`${url}/jobs/steps/status/${queued.id}`)).json();
    assert.deepEqual((status as { output: unknown }).output, [{ step: 0 }, { step: 1 }]);
    assert.equal((await post(`/jobs/steps/cancel/${queued.id}`)).json.status, "COMPLETED");
    assert.equal((await post("/jobs/steps/status/none")).json.code, "JOB_NOT_FOUND");
    const events = await fetch(`${url}/jobs/steps/stream/${queued.id}`, { headers: { accept: "text/event-stream" } });
    assert.match(await events.text(), /event: status\ndata: \{"status":"COMPLETED"\}/);
  });

  test("a streamed answer arrives as the function yields, not at its end", async () => {
    const response = await fetch(`${ON.local.url}/web/api/ticks?count=100&pause=30`);
    const reader = response.body!.getReader();
    assert.match(Buffer.from((await reader.read()).value!).toString(), /^data: 0/);
    await reader.cancel();
  });

  test("an upload streams to a function that reads while it arrives, and its answer comes back meanwhile", async () => {
    const { resolve, promise: first } = Promise.withResolvers<void>();
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(Buffer.from("one"));
        await first;
        controller.enqueue(Buffer.from("two"));
        controller.close();
      },
    });
    const response = await fetch(`${ON.local.url}/web/api/mirror`, {
      method: "POST",
      body,
      duplex: "half",
    } as RequestInit);
    let text = "";
    for await (const chunk of response.body!) {
      text += Buffer.from(chunk).toString();
      if (text === "one") resolve();
    }
    assert.equal(text, "onetwo");
  });

  test("a WebSocket passes through, and one that is refused says so", async () => {
    const address = ON.local.url.replace("http", "ws");
    const socket = new WebSocket(`${address}/web/api/chat/blue?n=3`);
    const got = new Promise((resolve, reject) => {
      socket.onmessage = (message) => resolve(message.data);
      socket.onerror = reject;
    });
    await new Promise((resolve) => {
      socket.onopen = resolve;
    });
    socket.send("hi");
    assert.deepEqual(JSON.parse(String(await got)), { room: "blue", n: 3, text: "hi" });
    const closed = new Promise<{ code: number }>((resolve) => {
      socket.onclose = resolve;
    });
    socket.close(1000);
    assert.equal((await closed).code, 1000);
    const refused = new WebSocket(`${address}/web/api/chat/closed`);
    await new Promise((resolve) => {
      refused.onerror = resolve;
    });
  });
});
