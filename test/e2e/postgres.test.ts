/** A platform whose store is in PostgreSQL: what users do with it, and what happens when either of the two dies. */
import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { COMPILED } from "../program.ts";
import { project, startPlatform, svc, tempDir } from "./platform.ts";
import { startPlatformProcess } from "./platform-process.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;

const WORKER = `
from svc import Endpoint

@Endpoint(name="double", workers=(1, 2))
def double(n):
    return 2 * n

api = Endpoint(name="api", workers=(1, 1))

@api.get("/hello")
def hello():
    return "hello"
`;

describe("a platform on PostgreSQL", { skip }, () => {
  let server: PostgresServer;

  before(async () => {
    server = await startPostgres((found as { bin: string }).bin, { durable: true });
  });
  after(() => server?.stop());

  /** With a password, as a file has it. */
  const settings = async (dir: string, database: string) => {
    const url = await server.database(database);
    mkdirSync(dir, { recursive: true });
    const file = path.join(dir, "password");
    writeFileSync(file, "hunter2\n");
    return { SVC_DATABASE_URL: `${url}?application_name=blue`, SVC_DATABASE_PASSWORD_FILE: file };
  };

  test("deploys, calls, and goes on after it was killed, after the database was, and after both", async (t) => {
    const platform = await startPlatform(t, await settings(tempDir(t), "life"));
    let running = platform;
    const ok = async (args: readonly string[], cwd?: string) => {
      const { code, stdout, stderr } = await platform.svc(args, { ...(cwd !== undefined && { cwd }) });
      assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
      return `${stdout}${stderr}`;
    };
    const dir = project(t, { "worker.py": WORKER });
    await ok(["deploy"], dir);
    const endpoints = await platform.endpoints();
    const endpoint = endpoints.find(({ name }) => name === "double");
    const hello = () => running.call(`${endpoints.find(({ name }) => name === "api")!.url}/hello`);
    const twice = async (n: number) => {
      const { json, text } = await platform.call(`${endpoint!.url}/runsync`, { body: { input: { n } } });
      assert.equal(json?.output, 2 * n, text);
    };
    await twice(1);
    assert.equal(await server.sql("SELECT name FROM endpoints ORDER BY name", "life"), "api\ndouble");
    assert.equal(await server.sql("SELECT count(*) FROM done_jobs", "life"), "1");
    const big = "x".repeat(200_000);
    const { json } = await platform.call(`${endpoint!.url}/run`, { body: { input: { n: big } } });
    const status = await ok(["platform", "status", "--data-dir", platform.dataDir]);
    assert.match(status, /Commits {2}a commit survives a crash of the database; .*no synchronous standby/);
    assert.match(status, new RegExp(`Database PostgreSQL 127.0.0.1:${server.port}/life`));
    const copied = await ok(["platform", "backup", path.join(tempDir(t), "copy"), "--data-dir", platform.dataDir]);
    assert.match(copied, /^Records {2}not copied, nor jobs: they are in PostgreSQL 127\.0\.0\.1:\d+\/life, which/m);

    await platform.kill();
    running = await platform.restart();
    await eventually(() => twice(2));
    const status2 = async () => (await running.call(`${endpoint!.url}/status/${json.id}`)).json;
    await eventually(async () => assert.equal((await status2()).status, "COMPLETED"));
    assert.equal((await status2()).output, big + big, "what was accepted before the kill");

    await server.kill("SIGQUIT");
    await eventually(async () =>
      assert.match((await running.call("/readyz")).text, /"degraded".*database cannot be reached/),
    );
    assert.equal((await running.call("/readyz")).status, 200, "for load-balanced calls go on");
    assert.equal((await hello()).text, '"hello"');
    // A call waits a while for the database to come back.
    const waits = twice(3).catch(() => {});
    await server.start();
    await waits;
    // As long as it takes to be itself again; then the callers are told to come again.
    await eventually(() => twice(3));
    await eventually(async () => assert.equal((await running.call("/readyz")).json.degraded, undefined));
    await ok(["deploy"], project(t, { "worker.py": WORKER.replace("2 * n", "2 * n + 0") }));
    await eventually(() => twice(4));

    await Promise.all([server.kill("SIGQUIT"), platform.kill(), running.kill()]);
    await server.start();
    running = await platform.restart();
    await eventually(() => twice(5));
    await ok(["undeploy", "--all", "--force"], dir);
    await eventually(async () => assert.equal(await server.sql("SELECT count(*) FROM endpoints", "life"), "0"));

    for (const name of ["platform.json", "database.json"]) {
      const file = path.join(platform.dataDir, name);
      if (existsSync(file)) assert.doesNotMatch(readFileSync(file, "utf8"), /hunter2/, name);
    }
    await running.stop();
    assert.equal(await server.sql("SELECT count(*) FROM platform_owner", "life"), "0");
    const without = await svc(["platform", "start", "--foreground", "--port", "0", "--data-dir", platform.dataDir]);
    assert.notEqual(without.code, 0);
    assert.match(without.stderr, /belongs to a platform whose apps are in PostgreSQL/);
  });

  test("a second platform on the database says whose it is, takes calls for it, and its place when that has ended", async (t) => {
    const given = await settings(tempDir(t), "shared_one");
    const first = await startPlatform(t, given);
    const said: string[] = [];
    const dataDir = path.join(tempDir(t), "data");
    mkdirSync(dataDir, { mode: 0o700 });
    copyFileSync(path.join(first.dataDir, "secret.key"), path.join(dataDir, "secret.key"));
    const second = await startPlatformProcess({
      dataDir,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, ...given },
      onLogLine: (line) => said.push(line),
    });
    t.after(() => second.end("SIGQUIT"));
    assert.match(said.join("\n"), new RegExp(`Another platform uses .*${first.dataDir}`));
    assert.equal(second.firstKey, undefined, "the database has its first key");
    const asked = () => first.call(`${second.url}/graphql`, { body: { query: "{ myself { id } }" } });
    await eventually(async () => assert.equal((await asked()).status, 200));
    const secret = path.join(dataDir, "webhook-secret");
    assert.ok(!existsSync(secret));
    await first.stop();
    await eventually(async () => assert.equal((await asked()).status, 200));
    assert.equal(readFileSync(secret, "utf8"), readFileSync(path.join(first.dataDir, "webhook-secret"), "utf8"));
  });

  test("ends while its database is away, also with a job that has not ended", async (t) => {
    const given = await settings(tempDir(t), "gone");
    const platform = await startPlatform(t, given);
    const worker = `
import time
from svc import Endpoint

@Endpoint(name="forever", workers=(1, 1))
def forever():
    while True: time.sleep(0.05)
`;
    const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) });
    assert.equal(code, 0, stderr);
    const [endpoint] = await platform.endpoints();
    const { json } = await platform.call(`${endpoint!.url}/run`, { body: { input: {} } });
    const status = async () => (await platform.call(`${endpoint!.url}/status/${json.id}`)).json.status;
    await eventually(async () => assert.equal(await status(), "IN_PROGRESS"));
    await server.kill("SIGQUIT");
    try {
      await eventually(async () => assert.ok((await platform.call("/readyz")).json.degraded));
      await platform.stop();
    } finally {
      await server.start();
    }
    const next = await platform.restart();
    await eventually(async () =>
      assert.equal((await next.call(`${endpoint!.url}/status/${json.id}`)).json.retries, 1, "begun again"),
    );
  });

  test("one whose database another has taken ends with a sentence, whatever is still open in it", async (t) => {
    const dataDir = path.join(tempDir(t), "data");
    const open = "--import=data:text/javascript,setInterval(()=>{},1e6)";
    const env = { SVC_DATABASE_URL: await server.database("taken"), NODE_OPTIONS: open };
    const ended = svc(["platform", "start", "--foreground", "--port", "0", "--data-dir", dataDir], { env });
    await eventually(() => assert.ok(existsSync(path.join(dataDir, "platform.json"))));
    await server.sql("UPDATE platform_owner SET id = 'other', home = 'other', place = 'elsewhere'", "taken");
    const { code, stderr } = await ended;
    assert.equal(code, 1, stderr);
    assert.match(stderr, /Another platform has taken the database: elsewhere\./);
  });

  test("ends while its database stands still", async (t) => {
    const platform = await startPlatform(t, await settings(tempDir(t), "still"));
    const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
    assert.equal(code, 0, stderr);
    const first = Number(readFileSync(path.join(server.dataDir, "postmaster.pid"), "utf8").split("\n")[0]);
    // None of its own goes without it: those that end wait for it.
    process.kill(first, "SIGSTOP");
    const children = readFileSync(`/proc/${first}/task/${first}/children`, "utf8").trim().split(" ").map(Number);
    const all = (signal: NodeJS.Signals) => {
      for (const pid of [...children, first]) process.kill(pid, signal);
    };
    all("SIGSTOP");
    try {
      await platform.stop();
    } finally {
      all("SIGCONT");
    }
  });

  test("what keeps it from starting is said in a sentence, without the password", async (t) => {
    const dir = tempDir(t);
    const start = (env: Record<string, string>) =>
      svc(["platform", "start", "--foreground", "--port", "0", "--data-dir", path.join(dir, "data")], { env });
    const cases: readonly [Record<string, string>, RegExp][] = [
      [{ SVC_DATABASE_URL: "postgres://svc:hunter2@h:port/x" }, /SVC_DATABASE_URL: .*HOST:PORT/],
      [{ SVC_DATABASE_PASSWORD_FILE: "/nothing" }, /counts only with SVC_DATABASE_URL/],
      [{ SVC_DATABASE_URL: `postgres://svc:hunter2@127.0.0.1:${server.port}/nothing` }, /has no database "nothing"/],
      [{ SVC_DATABASE_URL: `${server.url}?sslmode=require` }, /does not offer TLS/],
    ];
    for (const [env, words] of cases) {
      const { code, stdout, stderr } = await start(env);
      assert.notEqual(code, 0);
      assert.match(stderr, words);
      assert.doesNotMatch(stdout + stderr, /hunter2|at .*\.(ts|mjs|js):\d+/);
    }
  });
});
