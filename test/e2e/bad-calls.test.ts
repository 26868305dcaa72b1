/** Bad callers against the real platform: each gets its answer, the platform stays up and small. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { RUN_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const MB = 1024 * 1024;
const WORKER = `
from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1))
def hello(name="nobody", times: int = 1):
    return {"greeting": f"Hello, {name[:99]}!" * times}
`;
/** Connections that the test itself can hold: half of what it may open, so that two test files fit. */
const IDLE_CONNECTIONS = Math.min(10_000, Math.floor(openFilesMax() / 2));

function openFilesMax(): number {
  return Number(/Max open files\s+(\d+)/.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? 1024);
}

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;
}

async function connected(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  await once(socket, "connect");
  socket.on("error", () => {}).setMaxListeners(0);
  return socket;
}

/** Everything the other side sends until it closes. */
async function received(socket: Socket): Promise<string> {
  let text = "";
  socket.setEncoding("latin1").on("data", (part: string) => {
    text += part;
  });
  await new Promise((resolve) => socket.once("end", resolve).once("close", resolve));
  return text;
}

function head(platform: TestPlatform, method: string, path: string, ...headers: string[]): string {
  return [`${method} ${path} HTTP/1.1`, "Host: x", `Authorization: Bearer ${platform.key}`, ...headers, "", ""].join(
    "\r\n",
  );
}

test("Bad calls get their status and the one error body; the platform stays up, its memory bounded", async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [{ url, id } = { url: "", id: "" }] = await platform.endpoints();
  const alive = async () => {
    const answer = await platform.call(`${url}/runsync`, { body: { input: { name: "Ada" } } });
    assert.deepEqual([answer.status, answer.json.output], [200, { greeting: "Hello, Ada!" }], answer.text);
  };
  await alive();
  const restingMb = residentMb(platform.pid);

  const raw = async (path: string, body: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${platform.key}`, ...headers },
      body,
    });
    return { status: response.status, json: await response.json() };
  };

  const BODIES: [title: string, body: string, says: RegExp][] = [
    ["an empty body", "", /empty|JSON/i],
    ["broken JSON", '{"input": {"name": }}', /line 1, column 20|column 20/],
    ["JSON with something behind it", '{"input":{}} {}', /end of the text/],
    ["an array", "[]", /object/],
    ["no input", "{}", /"input" is missing/],
    ["input null", '{"input":null}', /"input" must be an object, not null/],
    ["input an array", '{"input":[1]}', /not an array/],
    ["input a text", '{"input":"Ada"}', /not a text/],
    ["input a number", '{"input":1}', /not a number/],
    ["a webhook that is no URL", '{"input":{},"webhook":"file:///etc/passwd"}', /http or https/],
    [
      "a wrong policy",
      '{"input":{},"policy":{"ttl":1,"executionTimeout":"x","lowPriority":3}}',
      /ttl.*execution|execution.*ttl/,
    ],
    ["text that is not UTF-8", "\u0000", /line 1|UTF-8/],
    ["a thousand nested arrays without end", `{"input":${"[".repeat(100_000)}`, /JSON|value/],
  ];
  for (const [title, body, says] of BODIES) {
    await t.test(`400: ${title}`, async () => {
      for (const route of ["/run", "/runsync"]) {
        const { status, json } = await raw(route, body);
        assert.deepEqual([status, json.code], [400, "BAD_INPUT"]);
        assert.deepEqual(Object.keys(json), ["error", "status", "title", "detail", "code"]);
        assert.match(json.detail, says);
        assert.doesNotMatch(JSON.stringify(json), /\.ts:|\/src\/|node:/);
      }
    });
  }

  await t.test("arguments that do not fit FAIL the job with the signature, not the platform", async () => {
    for (const [input, says] of [
      [{ nam: "Ada" }, /nam.*hello\(/s],
      [{ times: "many" }, /times/],
    ] as const) {
      const { status, json } = await raw("/runsync", JSON.stringify({ input }));
      assert.equal(status, 200);
      assert.equal(json.status, "FAILED");
      assert.match(json.error, says);
    }
  });

  await t.test("404, 405 and 401 for what is not there or not allowed", async () => {
    const to = (path: string, method = "GET", key?: string | null) => platform.call(path, { method, key });
    const v2 = `/v2/${id}`;
    for (const [answer, status, code] of [
      [await to("/v2/nothing/health"), 404, "ENDPOINT_NOT_FOUND"],
      [await to(`/v2/${"x".repeat(5_000)}/health`), 404, "ENDPOINT_NOT_FOUND"],
      [await to(`${v2}/status/%00%ff`), 404, "JOB_NOT_FOUND"],
      [await to(`${v2}/status/../../etc`), 404, undefined],
      [await to(`${v2}/nothing`), 404, "NOT_FOUND"],
      [await to(`${v2}/run`, "GET"), 405, "METHOD_NOT_ALLOWED"],
      [await to(`${v2}/health`, "DELETE"), 405, "METHOD_NOT_ALLOWED"],
      [await to(`${v2}/health`, "GET", null), 401, "MISSING_KEY"],
      [await to(`${v2}/health`, "GET", "svc_no"), 401, "WRONG_KEY"],
      [await to(`/lb/${id}/`), 400, "WRONG_ENDPOINT_KIND"],
    ] as const) {
      assert.equal(answer.status, status, answer.text);
      if (code !== undefined) assert.equal(answer.json.code, code);
    }
  });

  await t.test("413: a body without end is refused while it streams, whether its length is told or not", async () => {
    for (const header of ["Transfer-Encoding: chunked", `Content-Length: ${1024 * MB}`]) {
      const socket = await connected(platform.url);
      const answer = received(socket);
      socket.write(head(platform, "POST", `/v2/${id}/run`, header));
      const part = "x".repeat(MB);
      let sentMb = 0;
      let open = true;
      socket.once("close", () => {
        open = false;
      });
      void answer.then(() => {
        open = false;
      });
      while (open && sentMb < 100) {
        const chunk = header.startsWith("Transfer") ? `${part.length.toString(16)}\r\n${part}\r\n` : part;
        if (!socket.write(chunk)) await new Promise((go) => socket.once("drain", go).once("close", go));
        // Without this turn a write that the kernel takes at once would go on to the next, and no answer be looked for.
        await new Promise(setImmediate);
        sentMb++;
      }
      assert.match(await answer, /^HTTP\/1\.1 413 .*TOO_LARGE/s);
      assert.ok(sentMb < 100, `refused after ${sentMb} MB`);
      socket.destroy();
    }
    await alive();
  });

  await t.test("many large bodies at once: each is taken or refused, and the memory comes back", async () => {
    const body = JSON.stringify({ input: { name: "x".repeat(RUN_BODY_MAX_BYTES - 100) } });
    const answers = await Promise.all(Array.from({ length: 12 }, () => raw("/run", body)));
    assert.ok(answers.every(({ status }) => status === 200 || status === 429));
    await raw("/purge-queue", "");
    await alive();
  });

  await t.test("slow senders and half-closed callers keep nobody out", async () => {
    const slow = await Promise.all(Array.from({ length: 50 }, () => connected(platform.url)));
    for (const [index, socket] of slow.entries()) {
      const text = head(platform, "POST", `/v2/${id}/run`, "Content-Length: 12");
      socket.write(index % 2 === 0 ? text.slice(0, 20) : `${text}{"inp`);
    }
    await alive();
    for (const socket of slow) socket.destroy();

    const socket = await connected(platform.url);
    const body = '{"input":{"name":"half"}}';
    const answer = received(socket);
    socket.end(head(platform, "POST", `/v2/${id}/runsync`, `Content-Length: ${body.length}`) + body);
    assert.match(await answer, /Hello, half!/);
    socket.destroy();

    const gone = await Promise.all(Array.from({ length: 50 }, () => connected(platform.url)));
    for (const other of gone) other.end(head(platform, "POST", `/v2/${id}/run`, "Content-Length: 100"));
    await Promise.all(gone.map((other) => received(other)));
    await alive();
  });

  await t.test(`${IDLE_CONNECTIONS} idle connections cost little and keep nobody out`, async () => {
    const sockets: Socket[] = [];
    try {
      while (sockets.length < IDLE_CONNECTIONS) {
        sockets.push(...(await Promise.all(Array.from({ length: 200 }, () => connected(platform.url)))));
      }
      await alive();
      const eachKb = ((residentMb(platform.pid) - restingMb) * 1024) / sockets.length;
      assert.ok(eachKb < 64, `${eachKb.toFixed(1)} KB for each connection`);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    await alive();
  });

  const grownMb = residentMb(platform.pid) - restingMb;
  assert.ok(grownMb < 600, `the platform grew by ${grownMb.toFixed(0)} MB`);
  t.diagnostic(`resident: ${restingMb.toFixed(0)} MB before, ${residentMb(platform.pid).toFixed(0)} MB after`);
});
