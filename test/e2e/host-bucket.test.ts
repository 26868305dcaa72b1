/** Machines that joined a platform whose bucket hands out layers itself: one that reaches it, and one that does not. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { findS3, startS3 } from "../s3.ts";
import { networkOf, result, run, startJoinable } from "./joined-hosts.ts";

const s3 = await findS3();
const skip = "missing" in s3 && s3.missing;

/** Passes on to the platform, and counts the layers that go by. */
async function countingFront(t: TestContext, url: string) {
  let layers = 0;
  const front = createServer((req, res) => {
    if (req.method === "GET" && req.url!.startsWith("/layers/")) layers++;
    const { method, headers } = req;
    const passed = request(new URL(req.url!, url), { method, headers }, (answer) => {
      res.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(res);
    });
    req.pipe(passed.on("error", () => res.destroy()));
  }).listen(0, "0.0.0.0");
  await once(front, "listening");
  t.after(() => {
    front.close();
    front.closeAllConnections();
  });
  return { port: (front.address() as AddressInfo).port, layers: () => layers };
}

test("A machine that joined gets layers from the bucket itself; one that cannot reach it says so, and has them from the platform", {
  skip,
}, async (t) => {
  const server = await startS3((s3 as { program: string }).program);
  t.after(() => server.stop());
  const network = await networkOf(t);
  const env = { ...server.env, SVC_S3_PRESIGN: "1", SVC_WORKER_LISTEN: "tls://0.0.0.0:0" };
  const { platform, join, deploy, ran } = await startJoinable(t, env);
  const front = await countingFront(t, platform.url);
  const near = await join("near", { url: `http://127.0.0.1:${front.port}` });
  const { id } = await deploy();
  await result(platform, id, await run(platform, `/v2/${id}`, 1));
  assert.equal(front.layers(), 0);
  assert.doesNotMatch(near.agent.stdout, /bucket/);
  assert.equal(await near.agent.signal("SIGINT"), 0);
  if (network === undefined) return t.diagnostic("network namespaces cannot be made here");

  const far = await join("far", { url: `http://${network.address}:${front.port}`, netns: network.id });
  await result(platform, id, await run(platform, `/v2/${id}`, 2));
  assert.ok(front.layers() > 0);
  await eventually(() =>
    assert.match(
      far.agent.stdout,
      /"event":"warning","message":"The platform's bucket at 127\.0\.0\.1:\d+ cannot be used from this machine: [^"]*ECONNREFUSED[^"]*","help":"Layers come through the platform\."/,
    ),
  );
  assert.deepEqual(ran(), [1, 2]);
});
