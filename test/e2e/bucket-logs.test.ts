/** What workers print, of a platform with PostgreSQL and a bucket: after ends of all kinds, with the bucket away, and gone with its endpoint. */
import assert from "node:assert/strict";
import { existsSync, globSync, readdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { zstdDecompressSync } from "node:zlib";
import pg from "pg";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { hasLogged, project, startPlatform, type TestPlatform } from "./platform.ts";

const [found, s3] = [await findPostgres(), await findS3()];
const skip = ("missing" in found && found.missing) || ("missing" in s3 && s3.missing);

const WORKER = `
import os
from svc import Endpoint, Secret

@Endpoint(name="talker", workers=(1, 1), env={"TOKEN": Secret("TOKEN")})
def talk(text: str, times: int = 1):
    for _ in range(times):
        print(text, os.environ["TOKEN"])
    return len(text)
`;
const TOKEN = "swordfish-7391";

describe("logs of a platform with a database and a bucket", { skip }, () => {
  let database: PostgresServer;
  let bucket: S3Server;
  let databases = 0;
  before(async () => {
    database = await startPostgres((found as { bin: string }).bin);
    bucket = await startS3((s3 as { program: string }).program);
  });
  after(async () => {
    await bucket?.stop();
    await database?.stop();
  });

  async function started(t: Parameters<typeof startPlatform>[0]) {
    const name = `talk_${++databases}`;
    const url = await database.database(name);
    const platform = await startPlatform(t, {
      ...bucket.env,
      SVC_DATABASE_URL: url,
      SVC_S3_PREFIX: name,
      SVC_LOG_RETENTION_S: "7200",
    });
    const dir = project(t, { "worker.py": WORKER }, "talk");
    const secret = await platform.svc(["secret", "set", "TOKEN"], { cwd: dir, input: TOKEN });
    assert.equal(secret.code, 0, secret.stderr);
    const deployed = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(deployed.code, 0, deployed.stderr);
    const say = async (on: TestPlatform, text: string, times = 1) => {
      const [endpoint] = await on.endpoints();
      const { json } = await on.call(`${endpoint!.url}/runsync`, { body: { input: { text, times } } });
      assert.equal(json.status, "COMPLETED");
    };
    const objects = () => globSync(path.join(path.dirname(bucket.folder), name, "logs", "*", "*"));
    const inBucket = () =>
      objects()
        .map((file) => zstdDecompressSync(readFileSync(file)).toString())
        .join("");
    const texts = async (on: TestPlatform, ...args: string[]) => {
      const { code, stdout, stderr } = await on.svc(["logs", "talker", "--json", ...args], { cwd: dir });
      assert.equal(code, 0, stderr);
      return stdout
        .trim()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line).text as string);
    };
    /** What a kill leaves: an object is found by its row, which comes after it. */
    const hasRows = async (count: number) => {
      const client = new pg.Client(url);
      await client.connect();
      try {
        const rows = async () => (await client.query("SELECT count(*)::int AS count FROM log_chunks")).rows[0].count;
        await eventually(async () => assert.equal(await rows(), count));
      } finally {
        await client.end();
      }
    };
    return { platform, dir, say, objects, inBucket, hasRows, texts };
  }

  test("lines are there after an end in order and after a kill, without a file of the platform's machine, and secrets never leave it", async (t) => {
    const { platform, dir, say, inBucket, hasRows, texts } = await started(t);
    await say(platform, "first");
    await hasLogged(platform, dir, ["talker"], /first \*{8}/);
    await platform.stop();
    assert.match(inBucket(), /first \*{8}/);
    const logs = path.join(platform.dataDir, "logs");
    assert.deepEqual(existsSync(logs) ? readdirSync(logs) : [], []);
    rmSync(logs, { recursive: true, force: true });

    const second = await platform.restart();
    const status = await second.svc(["platform", "status", "--data-dir", platform.dataDir]);
    assert.match(status.stdout, /^Bucket {3}layers\/talk_1\/$/m);
    assert.match(status.stdout, /^Logs {5}in the bucket, of each endpoint the newest 64 MiB, for 2h$/m);
    await say(second, "second");
    await eventually(() => assert.match(inBucket(), /second \*{8}/));
    await hasRows(2);
    await second.kill();
    const third = await platform.restart();
    await say(third, "third");
    await hasLogged(third, dir, ["talker"], /third \*{8}/);
    const said = (await texts(third)).filter((text) => / \*{8}$/.test(text));
    assert.deepEqual(said, ["first ********", "second ********", "third ********"]);
    assert.deepEqual(await texts(third, "--grep", "SECOND"), ["second ********"]);
    assert.deepEqual((await texts(third, "--tail", "1")).length, 1);
    await third.stop();
    assert.doesNotMatch(inBucket(), new RegExp(TOKEN));
  });

  test("while the bucket is away new lines are shown and older ones said to be missing; all are there when it is back", async (t) => {
    const { platform, dir, say, inBucket, texts } = await started(t);
    await say(platform, "before");
    await hasLogged(platform, dir, ["talker"], /before/);
    await platform.stop();
    const again = await platform.restart();
    t.after(() => bucket.start());
    await bucket.kill();
    // Many: whoever prints does not wait for a bucket that is away.
    await say(again, "meanwhile", 20_000);
    await hasLogged(
      again,
      dir,
      ["talker", "--tail", "100000"],
      /meanwhile/,
      /\[svc\] older lines cannot be read now: The bucket/,
    );
    assert.ok(!(await texts(again, "--tail", "100000")).includes("before ********"));
    await bucket.start();
    await eventually(() => assert.match(inBucket(), /meanwhile/));
    await eventually(async () => {
      const all = await texts(again, "--tail", "100000");
      assert.ok(all.includes("before ********"));
      assert.equal(all.filter((text) => text === "meanwhile ********").length, 20_000);
    });
  });

  test("the log of an endpoint that is removed goes from the bucket", async (t) => {
    const { platform, dir, say, objects } = await started(t);
    await say(platform, "short");
    await eventually(() => assert.ok(objects().length > 0));
    const { code, stderr } = await platform.svc(["undeploy", "talker"], { cwd: dir });
    assert.equal(code, 0, stderr);
    await eventually(() => assert.deepEqual(objects(), []));
    assert.equal(await database.sql("SELECT count(*) FROM log_chunks", `talk_${databases}`), "0");
  });
});
