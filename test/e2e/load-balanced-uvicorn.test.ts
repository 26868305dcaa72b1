/** One application on uvicorn and on an endpoint: the same requests get the same answers, byte for byte. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import path from "node:path";
import { test } from "node:test";
import { pythonEnvironment } from "../../bench/processes.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { project, startPlatform, tempDir } from "./platform.ts";

type Asked = [method: string, path: string, headers?: Record<string, string | string[]>, body?: string];

const HERE = path.join(import.meta.dirname, "load-balanced");
const APPLICATION = `
from svc import Endpoint

api = Endpoint(name="api", dependencies=["fastapi", "python-multipart"], workers=(0, 1), max_concurrency=10)

@api.asgi
def app():
    from application import app
    return app
`;

const FORM = { "content-type": "multipart/form-data; boundary=B" };
const form = (...fields: [name: string, value: string, file?: string][]) => {
  const parts = fields.map(([name, value, file]) => {
    const filename = file === undefined ? "" : `; filename="${file}"\r\nContent-Type: text/x`;
    return `--B\r\nContent-Disposition: form-data; name="${name}"${filename}\r\n\r\n${value}\r\n`;
  });
  return `${parts.join("")}--B--\r\n`;
};

const PREFLIGHT = { origin: "https://page.example", "access-control-request-method": "PUT" };
const REQUESTS: Asked[] = [
  ["GET", "/static/digits.txt"],
  ["HEAD", "/static/digits.txt"],
  ["GET", "/static/small.txt"],
  ["GET", "/static/empty"],
  ["GET", "/static/sub/"],
  ["GET", "/static/none"],
  ["POST", "/static/small.txt"],
  ["GET", "/static/small.txt", { "if-modified-since": "Wed, 01 Jan 2098 00:00:00 GMT" }],
  ["GET", "/file"],
  ["GET", "/file", { "accept-encoding": "gzip" }],
  ["GET", "/file", { range: "bytes=10-19" }],
  ["GET", "/file", { range: "bytes=-5" }],
  ["GET", "/file", { range: "bytes=100000-" }],
  ["GET", "/file", { range: "bytes=900000-" }],
  ["POST", "/upload", FORM, form(["n", "5"], ["a", "x".repeat(200_000), "grüße.txt"])],
  ["POST", "/upload", FORM, form(["n", "5"], ["a", "x".repeat(20_000_000), "large.txt"])],
  ["POST", "/upload", FORM, form(["n", "x"])],
  ["POST", "/upload", FORM, "--B\r\nbroken"],
  ["POST", "/raw", { "content-type": "x/y" }, "hello"],
  ["POST", "/raw"],
  ["POST", "/raw", {}, "x".repeat(5_000_000)],
  ["POST", "/parts", {}, "x".repeat(3_000_000)],
  ["GET", "/stream"],
  ["GET", "/events"],
  ["GET", "/broken"],
  ["GET", "/background"],
  ["GET", "/teapot"],
  ["GET", "/key"],
  ["GET", "/elsewhere"],
  ["GET", "/slash/?x=1"],
  ["GET", "/cookies", { cookie: "a=5; c=6" }],
  ["GET", "/headers", { accept: "x/y", "x-several": ["1", "2"] }],
  ["GET", "/query?a=1&a=2&b=%C3%BC&c&d=+%2B&e=%ff&=x&&"],
  ["GET", "/path/a%2Fb/c%20d//e/%C3%BC"],
  ["GET", "/path/%25%3F%23"],
  ["GET", "/path/a;b=c,d:e@f"],
  ...["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "REPORT"].map((method): Asked => [method, "/method"]),
  ["GET", "/nothing"],
  ["GET", "/unchanged"],
  ["GET", "/no-body"],
  ["GET", "/large"],
  ["GET", "/large", { "accept-encoding": "gzip" }],
  ["GET", "/page"],
  ["GET", "/bytes"],
  ["GET", "/scope?x=%20y"],
  ["GET", "/nowhere"],
  ["OPTIONS", "/large", PREFLIGHT],
  ["OPTIONS", "/large", { ...PREFLIGHT, origin: "https://evil.example" }],
  ["GET", "/slash/", { origin: "https://page.example" }],
];

/** What the platform adds, and what each server says of the connection and the time. */
const OWN = /^(connection|date|keep-alive|server|server-timing|transfer-encoding|x-svc-.*)$/;

test("a FastAPI application answers as on uvicorn", async (t) => {
  let bin: string;
  try {
    bin = await pythonEnvironment("fastapi", ["fastapi", "uvicorn[standard]", "python-multipart"]);
  } catch {
    return t.skip("FastAPI is not installed here and the package index cannot be reached");
  }
  const platform = await startPlatform(t);
  const files = { "app.py": APPLICATION, "application.py": readFileSync(path.join(HERE, "application.py"), "utf8") };
  const deploy = await platform.svc(["deploy"], { cwd: project(t, files) });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const ours = (await platform.endpoints())[0]!.url;
  const port = await freePort();
  const args = ["application:app", "--port", String(port), "--log-level", "critical"];
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1", TMPDIR: tempDir(t) };
  const uvicorn = spawn(path.join(bin, "uvicorn"), args, { cwd: HERE, env, stdio: "ignore" });
  const ended = once(uvicorn, "exit");
  t.after(() => {
    uvicorn.kill();
    return ended;
  });
  const theirs = `http://127.0.0.1:${port}`;
  await eventually(async () => assert.equal((await fetch(`${theirs}/no-body`)).status, 200));

  for (const asked of REQUESTS) {
    const [own, other] = await Promise.all([ask(ours, platform.key, asked), ask(theirs, "", asked)]);
    assert.deepEqual(own, other, `${asked[0]} ${asked[1]} ${JSON.stringify(asked[2] ?? {})}`);
  }
});

/** Status, headers, and the body (when it is long its length and its ends), "cut" when it broke off. */
function ask(base: string, key: string, [method, target, headers = {}, body]: Asked): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const sent = { ...headers, authorization: `Bearer ${key}`, host: "app.example", connection: "close" };
    const req = request(base + target, { method, headers: sent }, (res) => {
      const parts: Buffer[] = [];
      const end = (cut: boolean) => {
        const kept = Object.entries(res.headers).filter(([name]) => !OWN.test(name));
        const text = Buffer.concat(parts).toString("latin1");
        const shown = text.length > 2_000 ? [text.length, text.slice(0, 500), text.slice(-500)] : text;
        resolve({ status: res.statusCode, headers: Object.fromEntries(kept.sort()), body: shown, cut });
      };
      res.on("data", (part) => parts.push(part));
      res.on("end", () => end(false));
      res.on("error", () => end(true));
    });
    req.on("error", reject);
    req.end(body);
  });
}
