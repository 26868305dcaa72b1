/** Layers on their way to a host: a server that serves, and servers that lie, stall and break off. */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createNetServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { LAYER_PART_BYTES } from "../../src/domain/agent-limits.ts";
import type { LayerTicket } from "../../src/domain/host-protocol.ts";
import { FetchedLayers } from "../../src/host/fetch-layers.ts";

type Answer = (req: IncomingMessage, res: ServerResponse, layer: Buffer) => void;

function layerOf(bytes: number) {
  const content = randomBytes(bytes);
  const digest = createHash("sha256").update(content).digest("hex");
  const ticket: LayerTicket = { digest, bytes, ticket: `ticket of ${digest}` };
  return { content, digest, ticket };
}

/** As the platform does: the whole, or the range that was asked for. */
const serve: Answer = (req, res, layer) => {
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(req.headers.range ?? "") ?? [];
  if (from === undefined) return void res.end(layer);
  if (Number(from) >= layer.length) return void res.writeHead(416).end();
  const part = layer.subarray(Number(from), Number(to) + 1);
  res.writeHead(206, { "Content-Range": `bytes ${from}-${Number(from) + part.length - 1}/${layer.length}` }).end(part);
};

async function setUp(t: TestContext, layer: ReturnType<typeof layerOf>, answer: Answer, keptMaxBytes = 1e9) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-fetch-"));
  const asked: { url: string; authorization: string; range: string | undefined }[] = [];
  let respond = answer;
  const server = createServer((req, res) => {
    const { authorization = "", range } = req.headers;
    asked.push({ url: req.url!, authorization, range });
    respond(req, res, layer.content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
    rmSync(dir, { recursive: true, force: true });
  });
  const kept = await openDiskArtifactStore(dir);
  const platformUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const layers = new FetchedLayers({ platformUrl, kept, keptMaxBytes, retryFirstMs: 5 });
  await layers.open();
  layers.allow([layer.ticket]);
  const content = async () => buffer(await layers.store.open(layer.digest));
  const change = (other: Answer) => {
    respond = other;
  };
  return { layers, kept, asked, content, change, platformUrl };
}

test("A small layer comes in one request with its ticket, once, however many ask; a large one in parts side by side", async (t) => {
  const small = layerOf(100_000);
  const one = await setUp(t, small, serve);
  const [first, second] = await Promise.all([one.content(), one.content()]);
  assert.ok(first.equals(small.content) && second.equals(small.content));
  assert.ok((await one.content()).equals(small.content));
  assert.deepEqual(one.asked, [
    { url: `/layers/${small.digest}`, authorization: `Bearer ticket of ${small.digest}`, range: undefined },
  ]);

  const large = layerOf(3 * LAYER_PART_BYTES + 5);
  let open = 0;
  let together = 0;
  const many = await setUp(t, large, (req, res, layer) => {
    together = Math.max(together, ++open);
    res.once("close", () => open--);
    setTimeout(() => serve(req, res, layer), 30);
  });
  assert.ok((await many.content()).equals(large.content));
  assert.equal(await many.layers.store.size(large.digest), large.content.length);
  assert.equal(many.asked.length, 4);
  assert.ok(together > 1, "parts come side by side");
});

test("What broke off goes on behind what has arrived, also after another start", async (t) => {
  const layer = layerOf(3 * LAYER_PART_BYTES);
  const part = (req: IncomingMessage) => Number(/=(\d+)/.exec(req.headers.range ?? "")?.[1]) / LAYER_PART_BYTES;
  const { content, kept, asked, change, platformUrl } = await setUp(t, layer, (req, res, bytes) => {
    if (part(req) === 0) serve(req, res, bytes);
    else res.destroy();
  });
  await assert.rejects(content(), { code: "PLATFORM_UNREACHABLE", message: /could not be fetched/ });
  assert.equal(await kept.partialSize(layer.digest), LAYER_PART_BYTES);
  asked.length = 0;
  change(serve);
  const again = new FetchedLayers({ platformUrl, kept, keptMaxBytes: 1e9 });
  await again.open();
  again.allow([layer.ticket]);
  assert.ok((await buffer(await again.store.open(layer.digest))).equals(layer.content));
  // One that the first had sent may arrive late, too.
  assert.deepEqual(
    new Set(asked.map(({ range }) => range?.split("-")[0])),
    new Set([`bytes=${2 * LAYER_PART_BYTES}`, `bytes=${LAYER_PART_BYTES}`]),
  );
});

test("A part that breaks off, comes short or meets a busy server is asked for again", async (t) => {
  const layer = layerOf(2 * LAYER_PART_BYTES);
  let turn = 0;
  const { content } = await setUp(t, layer, (req, res, bytes) => {
    const odd = [
      () => res.writeHead(503).end(),
      () => res.destroy(),
      () => {
        const [, from, to] = /=(\d+)-(\d+)/.exec(req.headers.range!)!;
        const head = { "Content-Range": `bytes ${from}-${to}/${bytes.length}`, Connection: "close" };
        res.writeHead(206, head).end(bytes.subarray(0, 10));
      },
    ][turn++];
    if (odd === undefined) serve(req, res, bytes);
    else odd();
  });
  assert.ok((await content()).equals(layer.content));
});

test("No lie of the server becomes a layer: each ends with a reason, and nothing of it stays", async (t) => {
  const small = layerOf(50_000);
  const large = layerOf(LAYER_PART_BYTES + 1);
  const endless: Answer = (req, res) => {
    res.writeHead(req.headers.range ? 206 : 200, {
      "Content-Range": `bytes 0-${LAYER_PART_BYTES - 1}/${LAYER_PART_BYTES + 1}`,
    });
    const more = () => {
      while (!res.destroyed && res.write(Buffer.alloc(65_536)));
    };
    res.on("drain", more);
    more();
  };
  const lies: [name: string, layer: typeof small, answer: Answer, code: string, words: RegExp][] = [
    ["other bytes", small, (_req, res) => void res.end(Buffer.alloc(50_000)), "LAYER_CORRUPT", /is something else/],
    [
      "too many",
      small,
      (_req, res, bytes) => void res.end(Buffer.concat([bytes, bytes])),
      "LAYER_CORRUPT",
      /more than the 50000/,
    ],
    ["without end", small, endless, "LAYER_CORRUPT", /more than the/],
    ["without end, in parts", large, endless, "LAYER_CORRUPT", /more than the|answered a request/],
    ["gone", small, (_req, res) => void res.writeHead(404).end(), "LAYER_MISSING", /does not have/],
    ["refused", small, (_req, res) => void res.writeHead(403).end(), "FORBIDDEN", /ticket/],
    ["shorter", large, (_req, res) => void res.writeHead(416).end(), "LAYER_CORRUPT", /shorter than/],
    ["no ranges", large, (_req, res, bytes) => void res.end(bytes), "LAYER_CORRUPT", /ignores ranges/],
    [
      "another range",
      large,
      (_req, res, bytes) => void res.writeHead(206, { "Content-Range": "bytes 0-9/10" }).end(bytes.subarray(0, 10)),
      "LAYER_CORRUPT",
      /with bytes 0-9\/10/,
    ],
    [
      "elsewhere",
      small,
      (_req, res) => void res.writeHead(302, { Location: "http://127.0.0.1:1/" }).end(),
      "LAYER_CORRUPT",
      /sent this host elsewhere/,
    ],
  ];
  for (const [name, layer, answer, code, message] of lies) {
    const { content, kept, asked } = await setUp(t, layer, answer);
    await assert.rejects(content(), { code, message }, name);
    assert.deepEqual(await kept.list(), [], name);
    assert.equal((await kept.partialSize(layer.digest)) ?? 0, 0, name);
    assert.ok(asked.length <= 5, `${name}: ${asked.length} requests`);
  }
});

test("A server that is no HTTP server, and a layer without a ticket, are told in words", async (t) => {
  const layer = layerOf(10);
  const { layers, content, kept } = await setUp(t, layer, serve);
  await assert.rejects(layers.store.open("0".repeat(64)), { code: "LAYER_MISSING", message: /no ticket/ });
  await content();
  const server = createNetServer((socket) => socket.on("error", () => {}).end("hello, I speak no HTTP\r\n\r\n"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const platformUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const odd = new FetchedLayers({ platformUrl, kept, keptMaxBytes: 1e9, retryFirstMs: 1 });
  const other = layerOf(10);
  odd.allow([other.ticket]);
  await assert.rejects(odd.store.open(other.digest), { code: "PLATFORM_UNREACHABLE" });
});

test("Layers are kept up to a bound: those not asked for longest go first", async (t) => {
  const layers = Array.from({ length: 4 }, () => layerOf(1_000));
  const byUrl: Answer = (req, res) => {
    res.end(layers.find(({ digest }) => req.url!.endsWith(digest))!.content);
  };
  const set = await setUp(t, layers[0]!, byUrl, 3_000);
  set.layers.allow(layers.map(({ ticket }) => ticket));
  for (const at of [0, 1, 2, 0, 3]) await buffer(await set.layers.store.open(layers[at]!.digest));
  assert.deepEqual((await set.kept.list()).sort(), [0, 2, 3].map((at) => layers[at]!.digest).sort());
});
