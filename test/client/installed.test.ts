/** What a user has after `npm install`: the package as npm packs it, in a project, with no other package. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { after, before, describe, test } from "node:test";
import { wheelName } from "../../src/domain/published-name.ts";
import { VERSION } from "../../src/domain/version.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { openBrowser } from "../browser.ts";
import { eventually } from "../eventually.ts";
import { endpoint, KEY, startPlatform } from "../gateway/support.ts";
import { handedOut } from "../package.ts";
import { serve } from "./serve.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const ADD = `from svc import Endpoint

@Endpoint(name="add")
def add(a: int, b: int) -> int:
    return a + b
`;

async function run(command: string, args: string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await runProcess(command, args, { cwd, env: process.env });
  assert.equal(code, 0, `${command} ${args.join(" ")}\n${stdout}${stderr}`);
  return stdout;
}

/** Returns the project that has the package installed, as "svc". */
async function install(dir: string): Promise<string> {
  const { folder, npm } = await handedOut();
  const project = path.join(dir, "project");
  mkdirSync(project);
  writeFileSync(path.join(project, "package.json"), '{"type": "module"}');
  const options = ["--offline", "--no-audit", "--no-fund", "--cache", path.join(dir, "cache")];
  await run("npm", ["install", ...options, `svc@file:${path.join(folder, npm)}`], project);
  return project;
}

describe("the installed package", () => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-installed-"));
  let project = "";
  before(async () => {
    project = await install(dir);
  });
  after(() => rmSync(dir, { recursive: true, force: true }));
  const node = (file: string, ...args: string[]) => run(process.execPath, [file, ...args], project);

  test("svc --version runs from the built files", async () => {
    assert.equal(await node("node_modules/.bin/svc", "--version"), `${VERSION}\n`);
  });

  test("what the code reads beside itself is there", () => {
    const files = (at: string) => readdirSync(at, { recursive: true, encoding: "utf8" }).sort();
    for (const folder of ["templates", "deploy/docker", "src/dev/explorer"]) {
      assert.deepEqual(files(path.join(project, "node_modules/svc", folder)), files(path.join(ROOT, folder)), folder);
    }
    const isThere = (file: string) => existsSync(path.join(project, "node_modules/svc", file));
    assert.ok(isThere("src/control-plane/schema.graphql"));
    assert.ok(isThere("src/control-plane/compatible.graphql"));
    assert.ok(isThere("python/scan/main.py"));
    const all = files(path.join(project, "node_modules/svc"));
    assert.deepEqual(
      all.filter((name) => /__pycache__|\.pyc$|\.test\.|\.map$/.test(name)),
      [],
      "what nobody needs",
    );
    const carried = ["LICENSE", "NOTICE", "swagger-ui-bundle.js.br", "swagger-ui.css.br"];
    assert.deepEqual(files(path.join(project, "node_modules/svc/dist/swagger-ui")), carried);
  });

  test("svc init brings the wheel that is handed out with it", async () => {
    await node("node_modules/.bin/svc", "init", "hello");
    const wheel = path.join(project, `hello/.svc/wheels/${wheelName(VERSION)}`);
    const names = await run("python3", ["-m", "zipfile", "-l", wheel], project);
    assert.match(names, /svc\/_runtime\/work\/worker\.py/);
    assert.match(names, /svc\/py\.typed/);
    assert.deepEqual(readFileSync(wheel), readFileSync(path.join((await handedOut()).folder, wheelName(VERSION))));
  });

  test("a platform of the built files runs a function, svc/client calls it, and svc run and the console serve their pages", async (t) => {
    const traced: string[] = [];
    const collector = await serve((request, response) => {
      traced.push(`${request.method} ${request.url}`);
      response.end("{}");
    });
    const env = {
      ...process.env,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector,
      SVC_DATA_DIR: path.join(dir, "data"),
      SVC_CONFIG_DIR: path.join(dir, "config"),
      PLATFORM_URL: undefined,
      PLATFORM_API_KEY: undefined,
    };
    const app = path.join(dir, "app");
    mkdirSync(app);
    const svc = async (...args: string[]) => {
      const file = path.join(project, "node_modules/.bin/svc");
      const { code, stdout, stderr } = await runProcess(process.execPath, [file, ...args], { cwd: app, env });
      assert.equal(code, 0, `svc ${args.join(" ")}\n${stdout}${stderr}`);
      return stdout.trim();
    };
    t.after(() => svc("platform", "stop", "--now"));
    await svc("platform", "start", "--port", "0");
    writeFileSync(path.join(app, "add.py"), ADD);
    await svc("deploy");
    const [{ url }] = JSON.parse(await svc("status", "--json")) as [{ url: string }];
    writeFileSync(
      path.join(project, "add.js"),
      `import { Endpoint } from "svc/client";
       const endpoint = new Endpoint({ url: process.argv[2], apiKey: process.argv[3] });
       console.log(await endpoint.runsync({ a: 1, b: 2 }));`,
    );
    assert.equal(await node("add.js", url, await svc("whoami", "--show-key")), "3\n");
    // Libraries that are loaded by a setting came with the package too.
    await eventually(() => assert.ok(traced.includes("POST /v1/traces"), traced.join("\n")));

    const login = new URL("/console/login", url);
    const found = [
      ...(await (await fetch(login, { headers: { "sec-fetch-dest": "document" } })).text()).matchAll(
        /(?:src|href)="([^"#]+)"/g,
      ),
    ].map(([, part]) => part!);
    const own = found.find((part) => part.endsWith("/login.js"))!;
    for (const name of ["main.js", "pages/overview.js", "vendor/preact.js", "vendor/htm.js", "vendor/uplot.js"]) {
      found.push(own.replace("login.js", name));
    }
    for (const part of found) assert.equal((await fetch(new URL(part, url))).status, 200, part);

    const file = path.join(project, "node_modules/.bin/svc");
    const server = spawn(process.execPath, [file, "run", "--port", "0"], { cwd: app, env });
    t.after(() => server.kill("SIGKILL"));
    const printed = new Promise<string>((resolve, reject) => {
      let text = "";
      for (const stream of [server.stdout, server.stderr]) {
        stream.setEncoding("utf8").on("data", (more: string) => {
          text += more;
          const [found] = /http:\/\/localhost:\d+/.exec(text) ?? [];
          if (found !== undefined) resolve(found);
        });
      }
      server.once("exit", () => reject(new Error(text)));
    });
    const local = await printed;
    const page = await (await fetch(`${local}/docs`)).text();
    const assets = [...page.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, asset]) => new URL(asset!, `${local}/docs`));
    assert.ok(assets.length > 2, page);
    for (const asset of assets) assert.equal((await fetch(asset)).status, 200, asset.href);
    server.removeAllListeners("exit").kill("SIGINT");
    await once(server, "exit");
  });

  test("a Node program imports svc/client and calls with it", async () => {
    const url = await serve((_request, response) => response.end('{"id":"j","status":"COMPLETED","output":{"sum":3}}'));
    writeFileSync(
      path.join(project, "call.js"),
      `import { Endpoint } from "svc/client";
       const endpoint = new Endpoint({ url: process.argv[2], apiKey: "k" });
       console.log(JSON.stringify(await endpoint.runsync({ a: 1, b: 2 })));`,
    );
    assert.equal(await node("call.js", `${url}/v2/ep`), '{"sum":3}\n');
    writeFileSync(path.join(project, "deep.js"), 'import "svc/dist/src/client/gateway.js";');
    await assert.rejects(node("deep.js"), /ERR_PACKAGE_PATH_NOT_EXPORTED/, "only what is offered can be imported");
  });

  test("the JavaScript client of examples/text-stream prints the text as it comes", async () => {
    const url = await serve((request, response) => {
      assert.equal(`${request.method} ${request.url}`, "POST /lb/ep/generate");
      response.setHeader("content-type", "text/event-stream");
      response.end('data: {"token": "the "}\n\ndata: {"token": "cat "}\n\nevent: done\ndata: {"words": 2}\n\n');
    });
    cpSync(path.join(ROOT, "examples/text-stream/stream.mjs"), path.join(project, "stream.mjs"));
    assert.equal(await node("stream.mjs", `${url}/lb/ep`, "Once"), "Once the cat \n");
  });

  test("a browser page of another origin imports the same files and calls with them", async (t) => {
    const browser = await openBrowser(t);
    if (browser === undefined) return;
    const origin = await serve((request, response) => {
      const file = path.join(project, request.url!);
      if (request.url === "/") return response.setHeader("content-type", "text/html").end("<title>a page</title>");
      if (!existsSync(file)) return response.writeHead(404).end();
      response.setHeader("content-type", "text/javascript").end(readFileSync(file));
    });
    const find = (id: string) => ({ ...endpoint(id, id === "web" ? "load-balanced" : "queue"), cors: origin });
    const forward = async () => {
      const body = Readable.from([Buffer.from('data: "a"\n\ndata: "b"\n\n')]);
      const headers: [string, string][] = [["content-type", "text/event-stream"]];
      const timing = { queueMs: 0, bootMs: 0, importMs: 0, execMs: 1 };
      return { status: 200, headers, body, workerId: "w-1", timing };
    };
    const platform = await startPlatform(t, { deps: { endpoints: { find } }, forward });
    platform.work(() => ({ state: "COMPLETED", output: Buffer.from('{"sum":3}') }));
    platform.work(() => ({ state: "FAILED", error: '{"error_type":"ValueError","error_message":"no"}' }), "other");
    const page = await browser.newPage();
    await page.goto(origin);
    const seen = await page.evaluate(
      `(async () => {
        const { Endpoint } = await import("/node_modules/svc/dist/src/client/endpoint.js");
        const at = (path) => new Endpoint({ url: ${JSON.stringify(platform.url)} + path, apiKey: ${JSON.stringify(KEY)} });
        const output = await at("/v2/jobs").runsync({ a: 1, b: 2 });
        const failed = await at("/v2/other").runsync({}).catch((error) => error.name + ": " + error.errorType);
        const events = [];
        for await (const { data } of at("/lb/web").events("POST", "/generate", { body: {} })) events.push(JSON.parse(data));
        const refused = await new Endpoint({ url: ${JSON.stringify(platform.url)} + "/v2/jobs", apiKey: "svc_x" }).run({}).catch((error) => error.code);
        return { output, failed, events, refused };
      })()`,
    );
    assert.deepEqual(seen, {
      output: { sum: 3 },
      failed: "JobFailedError: ValueError",
      events: ["a", "b"],
      refused: "WRONG_KEY",
    });
  });

  test("its types serve a TypeScript program that knows browsers only", async () => {
    writeFileSync(
      path.join(project, "typed.ts"),
      `import { Endpoint, JobFailedError, type JobRecord } from "svc/client";
       const endpoint = new Endpoint<{ a: number }, { sum: number }>({ url: "https://x/v2/ep", apiKey: "k" });
       const { sum } = await endpoint.runsync({ a: 1 }, { policy: { lowPriority: true }, signal: AbortSignal.timeout(9) });
       const job = await endpoint.run({ a: sum });
       for await (const token of job.stream<string>()) console.log(token.length);
       const record: JobRecord | undefined = job.record;
       try { console.log((await job.wait()).sum, record); } catch (e) { if (e instanceof JobFailedError) throw e.job; }
       const answer = await new Endpoint({ url: "/lb/x" }).post<{ ok: boolean }>("/y", { z: 1 });
       // @ts-expect-error an argument of another type
       if (answer.ok) await endpoint.run({ a: "text" });
       export {};`,
    );
    const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2024", "--lib", "es2024,dom"];
    const tsc = path.join(ROOT, "node_modules/.bin/tsc");
    await run(tsc, [...options, "--types", "", "--allowImportingTsExtensions", "--ignoreConfig", "typed.ts"], project);
  });
});
