/** Streams that nobody reads, and answers about large ones: neither fills the platform. */
import assert from "node:assert/strict";
import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { STREAM_ANSWER_MAX_BYTES, STREAM_KEPT_MAX_BYTES } from "../../src/domain/limits.ts";
import { objectsOf } from "../servers.ts";
import { project, startPlatform } from "./platform.ts";

const CHUNK_BYTES = 1_000_000;
/** Its runtime's own bound, on the list of all that is yielded, is lifted: the platform does not rely on it. */
const WORKER = `
import svc._runtime.work.answers
from svc import Endpoint

svc._runtime.work.answers.RESULT_MAX_BYTES = 1 << 40

@Endpoint(name="tokens", workers=(0, 1))
def tokens(count):
    for n in range(count):
        yield str(n).rjust(${CHUNK_BYTES} - 2)
`;

test("a stream has its bounds", async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const call = (route: string, body?: unknown) => platform.call(`${endpoint!.url}${route}`, { body });
  const submit = async (count: number) => (await call("/run", { input: { count } })).json.id as string;

  await t.test(
    "chunks that nobody takes fail their job, naming the limit; its worker goes on with the next",
    async () => {
      const id = await submit(Math.ceil((4 * STREAM_KEPT_MAX_BYTES) / CHUNK_BYTES));
      const { json: job } = await call(`/status-sync/${id}?wait=120000`);
      assert.equal(job.status, "FAILED");
      assert.match(job.error, /stream is too large: more than 67108864 bytes .*STREAM_KEPT_MAX_BYTES/);
      const blobs = objectsOf(platform.dataDir) ?? path.join(platform.dataDir, "blobs");
      const files = readdirSync(blobs, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
      // One on its way may have got its name meanwhile.
      const sizeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
      const bytes = files.reduce((sum, file) => sum + sizeOf(path.join(file.parentPath, file.name)), 0);
      assert.ok(bytes <= STREAM_KEPT_MAX_BYTES, `${bytes} bytes on the disk`);
      const next = await call(`/status-sync/${await submit(1)}?wait=120000`);
      assert.equal(next.json.status, "COMPLETED");
    },
  );

  await t.test("what was yielded is read in answers of a bounded size, and none of it is missed", async () => {
    const id = await submit(20);
    await call(`/status-sync/${id}?wait=120000`);
    let chunks = 0;
    for (let after = 0, status = ""; status !== "COMPLETED"; ) {
      const { json, text } = await call(`/stream/${id}?after=${after}`);
      assert.ok(text.length < STREAM_ANSWER_MAX_BYTES + 10_000, `${text.length} characters`);
      status = json.status;
      after = json.last;
      chunks += json.stream.length;
    }
    assert.equal(chunks, 20);
  });
});
