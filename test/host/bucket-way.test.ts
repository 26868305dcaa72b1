/** Layers from a bucket by presigned addresses: a real S3, and ones that are away, silent, refuse or lie. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { LAYER_PART_BYTES } from "../../src/domain/agent-limits.ts";
import { FetchedLayers } from "../../src/host/fetch-layers.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import { freePort } from "../free-port.ts";
import { findS3, startS3 } from "../s3.ts";

const s3 = await findS3();

async function listen(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A host that was given an address of the layer in the bucket. */
async function host(t: TestContext, content: Buffer, bucketUrl: string) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bucket-way-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  let asked = 0;
  const platformUrl = await listen(t, (req, res) => {
    asked++;
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? "") ?? [];
    if (from === undefined) return void res.end(content);
    const head = { "Content-Range": `bytes ${from}-${to}/${content.length}` };
    res.writeHead(206, head).end(content.subarray(Number(from), Number(to) + 1));
  });
  const told: string[] = [];
  const kept = await openDiskArtifactStore(dir);
  const bucketFailed = (bucket: string, reason: string) => void told.push(`${bucket}: ${reason}`);
  const layers = new FetchedLayers({ platformUrl, kept, keptMaxBytes: 1e9, retryFirstMs: 5, bucketFailed });
  await layers.open();
  const digest = createHash("sha256").update(content).digest("hex");
  layers.allow([{ digest, bytes: content.length, ticket: "ticket", bucketUrl }]);
  const got = async () => buffer(await layers.store.open(digest));
  return { got, told, asked: () => asked };
}

test("Layers come from the bucket itself, small ones whole and large ones in ranges", {
  skip: "missing" in s3 && s3.missing,
}, async (t) => {
  const server = await startS3((s3 as { program: string }).program);
  const bucket = await Bucket.open(server.settings);
  t.after(async () => {
    bucket.close();
    await server.stop();
  });
  for (const bytes of [100_000, 2 * LAYER_PART_BYTES + 5]) {
    const content = randomBytes(bytes);
    await bucket.put("layers/some", content);
    const { got, told, asked } = await host(t, content, await bucket.presignedUrl("layers/some", 600));
    assert.ok((await got()).equals(content));
    assert.deepEqual([told, asked()], [[], 0]);
  }
  // One that has ended is refused, and so is one that was changed.
  const content = randomBytes(1_000);
  await bucket.put("layers/some", content);
  const url = await bucket.presignedUrl("layers/some", 600);
  const changed = url.replace("layers/some", "layers/other");
  const past = url.replace(/X-Amz-Date=\d{4}/, "X-Amz-Date=2001");
  for (const wrong of [changed, past]) {
    const { got, told, asked } = await host(t, content, wrong);
    assert.ok((await got()).equals(content));
    assert.equal(asked(), 1);
    assert.match(
      told.join(),
      /^127\.0\.0\.1:\d+: The bucket (refused this host's ticket|does not have)|HTTP status 400/,
    );
    assert.doesNotMatch(told.join(), /X-Amz/);
  }
});

test("Where the bucket cannot be reached, is silent, refuses or lies, layers come through the platform, and it is told once", async (t) => {
  const large = randomBytes(3 * LAYER_PART_BYTES);
  const silent = createNetServer((socket) => socket.on("error", () => {})).listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close());
  const cut: RequestListener = (req, res) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range!)!;
    res.writeHead(206, { "Content-Range": `bytes ${from}-${to}/${large.length}` });
    res.write(Buffer.alloc(10), () => res.destroy());
  };
  const lies: RequestListener = (req, res) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range!)!;
    const head = { "Content-Range": `bytes ${from}-${to}/${large.length}` };
    res.writeHead(206, head).end(Buffer.alloc(Number(to) - Number(from) + 1));
  };
  const buckets: [name: string, url: string, words: RegExp][] = [
    ["away", `http://127.0.0.1:${await freePort()}/layer`, /ECONNREFUSED/],
    ["silent", `http://127.0.0.1:${(silent.address() as AddressInfo).port}/layer`, /no answer in 5 s/],
    ["refuses", await listen(t, (_, res) => void res.writeHead(403).end("no")), /refused/],
    ["fails", await listen(t, (_, res) => void res.writeHead(503).end("slow down")), /HTTP status 503/],
    [
      "elsewhere",
      await listen(t, (_, res) => void res.writeHead(307, { location: "http://127.0.0.1:1" }).end()),
      /else/,
    ],
    ["cut", await listen(t, cut), /.+/],
    ["lies", await listen(t, lies), /what came is not the layer/],
  ];
  for (const [name, url, words] of buckets) {
    const { got, told, asked } = await host(t, large, url);
    assert.ok((await got()).equals(large), name);
    assert.equal(told.length, 1, `${name}: ${told}`);
    assert.match(told[0]!, words, name);
    assert.ok(asked() >= 1 && asked() <= 3, `${name}: ${asked()}`);
  }
});
