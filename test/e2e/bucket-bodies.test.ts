/** Inputs and outputs above 64 KiB of a platform with PostgreSQL and a bucket that goes away: nothing is lost, and callers are told. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { eventually } from "../eventually.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { project, startPlatform } from "./platform.ts";

const [found, s3] = [await findPostgres(), await findS3()];
const skip = ("missing" in found && found.missing) || ("missing" in s3 && s3.missing);

const WORKER = `
import time
from svc import Endpoint

@Endpoint(name="grows", workers=(1, 1))
def grow(text: str, times: int, seconds: float = 0):
    time.sleep(seconds)
    return text * times
`;
const LARGE = 200_000;

describe("bodies in a bucket that goes away", { skip }, () => {
  let database: PostgresServer;
  let bucket: S3Server;
  before(async () => {
    database = await startPostgres((found as { bin: string }).bin);
    bucket = await startS3((s3 as { program: string }).program);
  });
  after(async () => {
    await bucket?.stop();
    await database?.stop();
  });

  test("a large input is refused in words, small calls go on, and a large output is stored when the bucket is back", async (t) => {
    const platform = await startPlatform(t, { ...bucket.env, SVC_DATABASE_URL: database.url });
    const deployed = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
    assert.equal(deployed.code, 0, deployed.stderr);
    const [endpoint] = await platform.endpoints();
    const call = (route: string, input?: object) =>
      platform.call(`${endpoint!.url}/${route}`, input && { body: { input } });
    const large = "x".repeat(LARGE);
    assert.equal((await call("runsync", { text: large, times: 1 })).json.output, large);

    const { json: job } = await call("run", { text: "y", times: LARGE, seconds: 10 });
    const status = async () => (await call(`status/${job.id}`)).json;
    await eventually(async () => assert.equal((await status()).status, "IN_PROGRESS"));
    t.after(() => bucket.start());
    await bucket.kill();
    const refused = await call("run", { text: large, times: 1 });
    assert.deepEqual([refused.status, refused.json.code], [503, "BUCKET_AWAY"], refused.text);
    assert.match(refused.text, /The bucket \\"layers\\" at [\d.:]+ does not answer/);
    // Behind the one whose output waits: its worker is there for it.
    assert.equal((await call("runsync?wait=120000", { text: "z", times: 2 })).json.output, "zz");
    assert.equal((await status()).status, "IN_PROGRESS", "its output is nowhere yet");

    await bucket.start();
    await eventually(async () => assert.equal((await status()).status, "COMPLETED"));
    assert.equal((await status()).output, "y".repeat(LARGE));
    assert.equal((await call("runsync", { text: large, times: 1 })).json.output, large);
  });
});
