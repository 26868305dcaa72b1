import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { uploadLayer } from "../../src/client/upload-layer.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { UPLOAD_UNASKED_MAX_BYTES } from "../../src/domain/limits.ts";
import { closedPort, serve } from "./serve.ts";

const SIZE = UPLOAD_UNASKED_MAX_BYTES + 500_000;
const bytes = randomBytes(SIZE);
const digest = createHash("sha256").update(bytes).digest("hex");

type Turn = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A server that plays one turn after the other, the last one again and again. */
async function playing(...turns: Turn[]) {
  const asked: string[] = [];
  const url = await serve((request, response) => {
    const offset = request.headers["upload-offset"];
    asked.push(offset === undefined ? request.method! : `${request.method} ${offset}`);
    const turn = turns[Math.min(asked.length, turns.length) - 1]!;
    turn(request, response);
  });
  return { platform: { url, apiKey: "svc_k" }, asked };
}

const nothing: Turn = (_request, response) => response.writeHead(404).end();
const whole: Turn = (_request, response) => response.writeHead(200, { "content-length": SIZE }).end();
const partly = (size: number): Turn => {
  const headers = { "upload-offset": size, "upload-complete": "?0" };
  return (_request, response) => response.writeHead(204, headers).end();
};
const cut: Turn = async (request) => {
  await once(request, "data");
  request.socket.destroy();
};
const refused =
  (status: number, code?: string, detail = "Refused."): Turn =>
  (request, response) => {
    request.resume();
    response.writeHead(status).end(code === undefined ? "<html>" : JSON.stringify({ code, detail }));
  };

describe("a layer's upload", () => {
  let path = "";
  before(async () => {
    path = join(await mkdtemp(join(tmpdir(), "svc-upload-")), digest);
    await writeFile(path, bytes);
  });
  after(() => rm(join(path, ".."), { recursive: true, force: true }));

  test("goes on from what the platform has, and its progress with it", async () => {
    let received: Buffer | undefined;
    const stored: Turn = async (request, response) => {
      received = await buffer(request);
      assert.equal(request.headers["upload-complete"], "?1");
      assert.equal(request.headers["content-type"], "application/partial-upload");
      response.end("{}");
    };
    const { platform, asked } = await playing(nothing, cut, partly(100_000), cut, partly(700_000), stored);
    const progress: number[] = [];
    const breaks: string[] = [];
    await uploadLayer(platform, digest, path, {
      onProgress: (sent) => progress.push(sent),
      onBreak: ({ message }) => breaks.push(message),
    });
    assert.deepEqual(asked, ["HEAD", "PUT", "HEAD", "PATCH 100000", "HEAD", "PATCH 700000"]);
    assert.ok(received!.equals(bytes.subarray(700_000)));
    assert.ok(progress.includes(100_000) && progress.includes(700_000));
    assert.equal(progress.at(-1), SIZE);
    assert.equal(breaks.length, 2);
    assert.match(breaks[0]!, /cannot be reached \(connection lost\)/);
  });

  test("sends nothing of a layer that is there", async () => {
    const { platform, asked } = await playing(whole);
    const progress: number[] = [];
    await uploadLayer(platform, digest, path, { onProgress: (sent) => progress.push(sent) });
    assert.deepEqual([asked, progress], [["HEAD"], [SIZE]]);
  });

  test("asks nothing for a small layer, until it breaks off", async () => {
    const small = join(path, "../small");
    await writeFile(small, bytes.subarray(0, 1000));
    const stored: Turn = (request, response) => request.resume().once("end", () => response.end("{}"));
    const { platform, asked } = await playing(cut, partly(10), stored);
    await uploadLayer(platform, digest, small);
    assert.deepEqual(asked, ["PUT", "HEAD", "PATCH 10"]);
  });

  test("waits while another sends the same layer, and for a platform that is started again", async () => {
    const { platform, asked } = await playing(
      partly(1),
      refused(409, "CONFLICT"),
      refused(502),
      partly(2),
      refused(503, "SHUTTING_DOWN"),
      partly(2),
      refused(504),
      partly(2),
      refused(408, "SLOW_REQUEST"),
      whole,
    );
    await uploadLayer(platform, digest, path);
    assert.equal(asked.length, 10);
  });

  test("begins anew, once, when what was there was not of this layer", async () => {
    const corrupt = refused(400, "LAYER_CORRUPT", "It hashes to another.");
    const { platform, asked } = await playing(partly(9), corrupt, nothing, corrupt);
    await assert.rejects(uploadLayer(platform, digest, path), { code: "LAYER_CORRUPT" });
    assert.deepEqual(asked, ["HEAD", "PATCH 9", "HEAD", "PUT"]);
    const longer = await playing(partly(SIZE + 1), refused(413, "TOO_LARGE"));
    await assert.rejects(uploadLayer(longer.platform, digest, path), { code: "TOO_LARGE" });
    assert.deepEqual(longer.asked, ["HEAD", "PUT"]);
  });

  test("gives up when nothing more arrives, and says how it continues", async () => {
    const { platform, asked } = await playing(...Array.from({ length: 20 }, () => [partly(5), cut]).flat());
    const upload = uploadLayer(platform, digest, path, { patienceMs: 2_500 });
    await assert.rejects(upload, (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "PLATFORM_UNREACHABLE");
      assert.match(
        error.message,
        /^The upload broke off\. The platform at .* cannot be reached \(connection lost\)\.$/,
      );
      assert.match(error.help!, /svc deploy continues where it stopped/);
      return true;
    });
    assert.ok(asked.length >= 4, String(asked));
  });

  test("that may not wait ends with the first break, as it is", async () => {
    const upload = uploadLayer({ url: await closedPort(), apiKey: "k" }, digest, path, { patienceMs: 0 });
    await assert.rejects(upload, { code: "PLATFORM_UNREACHABLE", message: /^The platform at .*connection refused/ });
    const busy = await playing(nothing, refused(409, "CONFLICT"), whole);
    await uploadLayer(busy.platform, digest, path, { patienceMs: 0 });
  });
});
