// May take 12 minutes.
/** A platform that moves from its data directory to a database and a bucket, and back: with all it has, and killed on the way. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { COMPILED, PROGRAM } from "../program.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { embeddedOnly } from "../servers.ts";
import { type CliResult, project, svc, tempDir } from "./platform.ts";
import { startPlatformProcess } from "./platform-process.ts";
import { TcpWay } from "./replicas.ts";

const [postgres, s3] = await Promise.all([findPostgres(), findS3()]);
const skip =
  embeddedOnly("it begins with a data directory") ||
  ("missing" in postgres && postgres.missing) ||
  ("missing" in s3 && s3.missing);
/** Results are kept for longer than all moves take together. */
const KEPT = { SVC_RUNSYNC_RETENTION_S: "3600" };
const BASE = { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, ...KEPT, CI: "1", NO_COLOR: "1" };
// biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
type Answered = Record<string, any>;
const BIG = "x".repeat(200_000);
/** Of the statement that counts the jobs in the database. */
const COUNTS = "FILTER (WHERE webhook";

const files = (laterWorkers: number) => ({
  "tasks.py": `import os
from svc import Endpoint, Secret

@Endpoint(name="wide", workers=(0, 1), env={"TOKEN": Secret("TOKEN"), "MODE": "quiet"})
def wide(text: str) -> str:
    print("said", text[:10])
    if text == "fail":
        raise ValueError("no such text")
    return os.environ["TOKEN"] + os.environ["MODE"] + text

@Endpoint(name="later", workers=(0, ${laterWorkers}))
def later(text: str) -> int:
    return len(text)
`,
});

/** A platform whose environment differs from start to start. */
async function openHome(t: TestContext) {
  const dir = tempDir(t);
  const dataDir = path.join(dir, "data");
  const cwd = project(t, files(0), "shop");
  let key: string | undefined;
  const start = async (given: Readonly<Record<string, string>> = {}) => {
    const running = await startPlatformProcess({ dataDir, env: { ...BASE, ...given } });
    t.after(() => running.end("SIGQUIT"));
    key ??= running.firstKey;
    const call = async (target: string, body?: unknown) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const method = body === undefined ? "GET" : "POST";
      const answer = await fetch(new URL(target, running.url), {
        method,
        headers,
        body: body && JSON.stringify(body),
      } as RequestInit);
      return answer.json() as Promise<Answered>;
    };
    const cli = async (args: string[], input?: string) => {
      const env = { PLATFORM_URL: running.url, PLATFORM_API_KEY: key!, SVC_CONFIG_DIR: path.join(dir, "config") };
      const { code, stdout, stderr } = await svc(args, { cwd, env, ...(input !== undefined && { input }) });
      assert.equal(code, 0, `svc ${args.join(" ")}: ${stderr}`);
      return stdout;
    };
    const json = async (...args: string[]) => JSON.parse(await cli([...args, "--json"]));
    return { ...running, call, cli, json, stop: () => running.end("SIGQUIT") };
  };
  const migrate = (args: string[], env: Record<string, string>): Promise<CliResult> =>
    svc(["platform", "migrate", "--from", dataDir, ...args], { env });
  return { dir, dataDir, cwd, start, migrate };
}

interface Place {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  /** To the database. */
  readonly way: TcpWay;
}

type Home = Awaited<ReturnType<typeof openHome>>;

/** Deployed, called, failed, and with a job that waits. */
async function filled(home: Home) {
  const platform = await home.start();
  await platform.cli(["secret", "set", "TOKEN"], "sesame");
  await platform.cli(["deploy", "--message", "the first"]);
  const endpoints = (await platform.json("status")) as { id: string; name: string }[];
  const at = (name: string) => `/v2/${endpoints.find((one) => one.name === name)!.id}`;
  const done = await platform.call(`${at("wide")}/runsync`, { input: { text: BIG } });
  assert.equal(done.output, `sesamequiet${BIG}`);
  const failed = await platform.call(`${at("wide")}/runsync`, { input: { text: "fail" } });
  assert.equal(failed.status, "FAILED");
  const waits = await platform.call(`${at("later")}/run`, { input: { text: BIG }, policy: { ttl: 86_400_000 } });
  assert.equal(waits.status, "IN_QUEUE");
  const [audit, deploys] = [await platform.json("audit"), await platform.json("rollback", "--list")];
  await platform.stop();
  return { at, jobs: { done: done.id, failed: failed.id, waits: waits.id } as Record<string, string>, audit, deploys };
}

describe("svc platform migrate", { skip }, () => {
  let database: PostgresServer;
  let bucket: S3Server;

  before(async () => {
    database = await startPostgres((postgres as { bin: string }).bin);
    bucket = await startS3((s3 as { program: string }).program);
  });
  after(async () => {
    await database?.stop();
    await bucket?.stop();
  });

  let places = 0;
  /** Empty ones. */
  const place = async (t: TestContext): Promise<Place> => {
    const name = `place_${++places}`;
    const url = new URL(await database.database(name));
    const way = await TcpWay.open(t, Number(url.port));
    url.port = `${way.port}`;
    return { name, way, env: { ...bucket.env, SVC_S3_PREFIX: name, SVC_DATABASE_URL: url.href } };
  };

  test("all that a platform has is in the database and the bucket, and back on the disk, however often the command is killed", async (t) => {
    const home = await openHome(t);
    const { at, jobs, audit, deploys } = await filled(home);
    const to = await place(t);
    const { name, env } = to;
    const { dataDir } = home;

    const dry = await home.migrate(["--dry-run", "--json"], env);
    assert.equal(dry.code, 0, dry.stderr);
    const looked = JSON.parse(dry.stdout);
    assert.deepEqual([looked.jobs.open, looked.jobs.done, looked.jobs.bodies, looked.records.endpoints], [1, 2, 3, 2]);
    assert.equal(existsSync(path.join(dataDir, "platform.db")), true);
    assert.equal(await database.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name), "0");

    await killedAtEachStep(t, home, [], to);
    const facts = JSON.parse(await ok(home.migrate(["--json"], env)));
    assert.deepEqual([facts.jobs.open, facts.jobs.done, facts.jobs.bodies, facts.jobs.lostBodies], [1, 2, 3, 0]);
    assert.deepEqual([facts.resumed, facts.layers.missing], [true, 0]);
    assert.deepEqual(facts.records, looked.records);
    for (const gone of ["migration.json", "artifacts", "blobs"])
      assert.equal(existsSync(path.join(dataDir, gone)), false, gone);
    assert.equal(
      await database.sql("SELECT count(*) FROM pg_tables WHERE tablename = 'platform_migration'", name),
      "0",
    );

    for (const folder of ["layers", "layer-cache", "base"])
      rmSync(path.join(dataDir, folder), { recursive: true, force: true });
    let platform = await home.start(env);
    const status = async (id: string, endpoint: string) => platform.call(`${at(endpoint)}/status/${id}`);
    const checkFinished = async () => {
      assert.equal((await status(jobs.done!, "wide")).output, `sesamequiet${BIG}`);
      assert.match(JSON.stringify(await status(jobs.failed!, "wide")), /FAILED.*no such text/);
      assert.deepEqual((await platform.json("rollback", "--list")).at(-1), deploys.at(-1));
      const now = JSON.stringify(await platform.json("audit"));
      for (const entry of audit) assert.ok(now.includes(JSON.stringify(entry)), JSON.stringify(entry));
    };
    await checkFinished();
    assert.equal((await status(jobs.waits!, "later")).status, "IN_QUEUE");
    assert.equal((await platform.call(`${at("later")}/health`)).jobs.inQueue, 1);
    assert.equal((await platform.call(`${at("wide")}/runsync`, { input: { text: "!" } })).output, "sesamequiet!");
    const said = async () => {
      const lines = (await platform.cli(["logs", "wide", "--grep", "said", "--json"])).trim().split("\n");
      return lines.filter((line) => line !== "").map((line) => JSON.parse(line).text as string);
    };
    const before = ["said xxxxxxxxxx", "said fail"];
    await eventually(async () => assert.deepEqual(await said(), [...before, "said !"]));
    const logs = readdirSync(path.join(dataDir, "logs"));
    assert.deepEqual(logs, [], "what workers printed is in the bucket now");
    const second = await platform.call(`${at("later")}/run`, { input: { text: "four" } });
    await platform.stop();

    await killedAtEachStep(t, home, ["--to", "disk"], to);
    const back = JSON.parse(await ok(home.migrate(["--to", "disk", "--json"], env)));
    assert.deepEqual([back.jobs.open, back.jobs.done, back.jobs.bodies, back.jobs.lostBodies], [2, 3, 3, 0]);
    platform = await home.start();
    await checkFinished();
    writeFileSync(path.join(home.cwd, "tasks.py"), files(1)["tasks.py"]);
    await platform.cli(["deploy"]);
    // The jobs that waited on each side run, those that came first begin first.
    await eventually(async () => assert.equal((await status(jobs.waits!, "later")).output, BIG.length));
    await eventually(async () => assert.equal((await status(second.id!, "later")).output, 4));
    assert.equal((await platform.call(`${at("wide")}/runsync`, { input: { text: "?" } })).output, "sesamequiet?");
    await eventually(async () => assert.deepEqual(await said(), [...before, "said !", "said ?"]));
    await platform.stop();
    await assert.rejects(home.start(env), /holds an embedded platform[\s\S]*|svc platform migrate/);
    const other = await openHome(t);
    await assert.rejects(other.start(env), /its platform was moved to .*data on /);
  });

  test("a move that began is given up by hand, and the platform goes on where it was: before it and behind it", async (t) => {
    const home = await openHome(t);
    const { at, jobs } = await filled(home);
    const to = await place(t);
    const { name, env } = to;
    const { dataDir } = home;
    const goesOn = async (given?: Record<string, string>) => {
      const platform = await home.start(given);
      assert.equal((await platform.call(`${at("later")}/status/${jobs.waits}`)).status, "IN_QUEUE");
      assert.equal((await platform.call(`${at("wide")}/runsync`, { input: { text: "!" } })).output, "sesamequiet!");
      await platform.stop();
    };
    await killedAt(t, home, "Jobs", [], to);
    await assert.rejects(home.start(), /To give it up: docs\/operate\/migrate\.md/);
    rmSync(path.join(dataDir, "migration.json"));
    await goesOn();
    // What was copied is in the way until it is removed.
    const { code, stderr } = await home.migrate([], env);
    assert.notEqual(code, 0);
    assert.match(stderr, /a platform is being moved into it/);
    await database.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION svc", name);
    rmSync(path.join(path.dirname(bucket.folder), name), { recursive: true });
    await ok(home.migrate([], env));
    await goesOn(env);

    await killedAt(t, home, "Jobs", ["--to", "disk"], to);
    await assert.rejects(home.start(env), /To give it up: docs\/operate\/migrate\.md/);
    rmSync(path.join(dataDir, "migration.json"));
    for (const each of readdirSync(dataDir).filter((one) => one.startsWith("migrated-")))
      rmSync(path.join(dataDir, each), { recursive: true });
    await database.sql("DROP TABLE platform_migration", name);
    await goesOn(env);
    await ok(home.migrate(["--to", "disk"], env));
    await goesOn();
  });

  test("what is not the platform's own, or not empty, or not whole, is refused in words and left as it is", async (t) => {
    const home = await openHome(t);
    const { at, jobs } = await filled(home);
    const { dataDir } = home;
    const { name, env } = await place(t);
    const refused = async (words: RegExp, given = env, args: string[] = []) => {
      for (const more of [["--dry-run"], []]) {
        const { code, stdout, stderr } = await home.migrate([...args, ...more], given);
        assert.notEqual(code, 0, stdout);
        assert.match(stderr, words);
        assert.doesNotMatch(stderr, /at .*\.(ts|mjs|js):\d+/);
        assert.equal(existsSync(path.join(dataDir, "before-migrate")), false);
      }
    };
    await refused(/Which database is meant is not said/, {});
    await refused(
      /A bucket alone takes no platform: records and jobs go to a database/,
      bucket.env as Record<string, string>,
    );
    await refused(/can be read by other users/, {}, ["--to", "postgres://svc:hunter2@127.0.0.1/x"]);
    await refused(/has no database "nothing"/, env, ["--to", env.SVC_DATABASE_URL!.replace(name, "nothing")]);
    await refused(/is not s3:\/\/NAME/, env, ["--bucket", "layers"]);
    await refused(/is in no database/, env, ["--to", "disk"]);
    const running = await home.start();
    await refused(/The platform runs \(process \d+\)/);
    await running.stop();

    await database.sql("CREATE TABLE invoices (id int); CREATE TABLE endpoints (id int)", name);
    await refused(/holds tables that are not svc's: endpoints, invoices/);
    await database.sql("DROP TABLE invoices; DROP TABLE endpoints", name);

    // Its key opens what this one's does not.
    await database.sql(
      `SET ROLE svc; CREATE TABLE platform_identity (name text PRIMARY KEY, sealed text NOT NULL);
       INSERT INTO platform_identity VALUES ('webhook-secret', 'v1.x')`,
      name,
    );
    await refused(/holds another platform already \(its table platform_identity has rows\)/);
    await database.sql("DELETE FROM platform_identity", name);

    const other = await openHome(t);
    const elsewhere = await place(t);
    const living = await other.start(elsewhere.env);
    await refused(/holds another platform already/, elsewhere.env);
    await living.stop();
    mkdirSync(path.join(bucket.folder, "layers"), { recursive: true });
    writeFileSync(path.join(bucket.folder, "layers/another"), "x");
    await refused(/The bucket holds objects already, as "svc\//, {
      ...env,
      SVC_S3_PREFIX: bucket.settings.prefix,
    });

    const [layer] = globSync(path.join(dataDir, "artifacts/??/*"));
    renameSync(layer!, `${dataDir}/kept`);
    symlinkSync(`${dataDir}/kept`, layer!);
    await refused(/A symbolic link lies where the platform keeps its own files/);
    rmSync(layer!);
    const bytes = readFileSync(`${dataDir}/kept`);
    writeFileSync(layer!, Buffer.concat([bytes.subarray(1), Buffer.from("!")]));
    await refused(/A layer is damaged where it is[\s\S]*artifacts/);
    // It began: no platform starts on either side until it has ended.
    await assert.rejects(home.start(), /being moved to PostgreSQL[\s\S]*svc platform migrate/);
    await assert.rejects(other.start({ ...env }), /a platform is being moved into it from .*data on /);
    await refused(/Another move has begun and not ended: to PostgreSQL/, elsewhere.env);
    renameSync(`${dataDir}/kept`, layer!);
    await ok(home.migrate([], env));
    const platform = await home.start(env);
    assert.equal((await platform.call(`${at("later")}/status/${jobs.waits}`)).status, "IN_QUEUE");
    assert.deepEqual(
      readdirSync(dataDir).filter((each) => each.startsWith("migrated-")),
      [],
    );
    await platform.stop();
    await refused(/is in PostgreSQL already/);
  });
});

async function ok(running: Promise<CliResult>): Promise<string> {
  const { code, stdout, stderr } = await running;
  assert.equal(code, 0, stderr);
  return stdout;
}

/** As soon as a step is said, the command is killed; the next one goes on. */
async function killedAtEachStep(t: TestContext, home: Home, args: string[], to: Place) {
  for (const step of ["Layers", "Records", "Jobs", "Counting"]) await killedAt(t, home, step, args, to);
}

async function killedAt(t: TestContext, { dataDir }: Home, step: string, args: string[], { env, way }: Place) {
  // However late it is killed, it has not got beyond the last of these steps.
  way.stallAt(COUNTS);
  const command = [PROGRAM, "platform", "migrate", "--from", dataDir, ...args];
  const child: ChildProcess = spawn(process.execPath, command, {
    env: { ...BASE, ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => child.kill("SIGKILL"));
  const ended = once(child, "exit");
  const said: string[] = [];
  createInterface(child.stderr!).on("line", (line) => {
    said.push(line);
    if (line.startsWith(step)) child.kill("SIGKILL");
  });
  const [code, signal] = await ended;
  way.mend();
  assert.deepEqual([code, signal], [null, "SIGKILL"], `${step}\n${said.join("\n")}`);
}
