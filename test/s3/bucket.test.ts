/** Requests to a bucket, and what servers answer that refuse, are slow, break off or do not know what AWS added. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { BUCKET_TRIES_MAX } from "../../src/domain/limits.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { Bucket } from "../../src/s3/bucket.ts";
import type { BucketSettings } from "../../src/s3/bucket-settings.ts";

const KEYS = { id: "AKID", secret: "a secret that is never told" };
type Answer = (res: ServerResponse, req: IncomingMessage) => void;

/** A server that gives one answer after the other, the last one again and again. */
async function serve(
  t: TestContext,
  answers: readonly Answer[],
  settings: Partial<BucketSettings> = {},
  answerMaxMs?: number,
) {
  const requests: IncomingMessage[] = [];
  const server = createServer((req, res) => {
    requests.push(req.resume());
    req.on("end", () => answers[Math.min(requests.length, answers.length) - 1]!(res, req));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const all = { name: "layers", region: undefined, prefix: "some/", pathStyle: true, keys: KEYS, ...settings };
  const bucket = await Bucket.open({ endpoint: `http://localhost:${port}`, ...all }, answerMaxMs);
  t.after(() => {
    bucket.close();
    server.close();
    server.closeAllConnections();
  });
  return { bucket, requests };
}

const says =
  (status: number, code: string, message = `${code} it is`): Answer =>
  (res) =>
    res
      .writeHead(status, { "content-type": "application/xml" })
      .end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
const fine: Answer = (res) => res.writeHead(200, { etag: '"1"' }).end();

test("a request goes to the bucket's path, signed, and asks for nothing that AWS added later", async (t) => {
  const { bucket, requests } = await serve(t, [fine]);
  await bucket.put("layers/1", Buffer.from("bytes"));
  await bucket.putPart("layers/1", "upload", 1, Buffer.from("bytes"));
  assert.deepEqual(
    requests.map(({ method, url }) => `${method} ${url!.split("?")[0]}`),
    ["PUT /layers/some/layers/1", "PUT /layers/some/layers/1"],
  );
  for (const { headers } of requests) {
    assert.match(headers.authorization!, /^AWS4-HMAC-SHA256 Credential=AKID\/\d+\/us-east-1\/s3\/aws4_request/);
    assert.equal(headers["content-length"], "5");
    const added = Object.keys(headers).filter((name) => /checksum|trailer|decoded/.test(name));
    assert.deepEqual(added, []);
  }
});

test("the bucket is in the host's name where that is wanted", async (t) => {
  // No name below .invalid is ever found: who was looked for is told.
  const { bucket } = await serve(t, [fine], { pathStyle: false, endpoint: "http://s3.invalid" });
  await assert.rejects(bucket.put("one", Buffer.from("bytes")), /layers\.s3\.invalid/);
});

test("without keys of its own a platform has those that the environment gives", async (t) => {
  const given = { AWS_ACCESS_KEY_ID: "FROMENV", AWS_SECRET_ACCESS_KEY: "another" };
  const before = Object.keys(given).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, given);
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });
  const { bucket, requests } = await serve(t, [fine], {
    keys: undefined,
    region: "eu-1",
  });
  await bucket.put("layers/1", Buffer.from("bytes"));
  assert.match(requests[0]!.headers.authorization!, /Credential=FROMENV\/\d+\/eu-1\//);
});

test("a server that asks for fewer requests, or fails, is asked again, a bounded number of times", async (t) => {
  const recovers = await serve(t, [says(503, "SlowDown"), says(500, "InternalError"), fine]);
  await recovers.bucket.put("one", Buffer.from("bytes"));
  assert.equal(recovers.requests.length, 3);
  const busy = await serve(t, [says(503, "SlowDown")]);
  await assert.rejects(busy.bucket.put("one", Buffer.from("bytes")), {
    code: "BUCKET_AWAY",
    status: 503,
    message: /The bucket "layers" at localhost:\d+ does not answer: it asks for fewer requests\.$/,
  });
  assert.equal(busy.requests.length, BUCKET_TRIES_MAX);
});

test("a server that cuts connections is away, and one that cuts an object off is asked for it again", async (t) => {
  const cuts = await serve(t, [(res) => res.destroy()]);
  await assert.rejects(cuts.bucket.put("one", Buffer.from("bytes")), { code: "BUCKET_AWAY" });
  const half: Answer = (res) => {
    res.writeHead(200, { "content-length": 10 });
    res.write("01234", () => res.destroy());
  };
  const whole: Answer = (res) => res.writeHead(200, { "content-length": 10 }).end("0123456789");
  const { bucket, requests } = await serve(t, [half, whole]);
  assert.equal((await bucket.read("one"))!.toString(), "0123456789");
  assert.equal(requests.length, 2);
});

test("a server that takes a request and says nothing is asked again, and away then", async (t) => {
  const silent: Answer = () => {};
  const recovers = await serve(t, [silent, fine], {}, 200);
  await recovers.bucket.put("one", Buffer.from("bytes"));
  assert.equal(recovers.requests.length, 2);
  const { bucket, requests } = await serve(t, [silent], {}, 200);
  const words = /The bucket "layers" at localhost:\d+ does not answer: it took too long\.$/;
  await assert.rejects(bucket.put("one", Buffer.from("bytes")), { code: "BUCKET_AWAY", message: words });
  assert.equal(requests.length, BUCKET_TRIES_MAX);
});

test("a certificate that is not trusted is said to be, and is with its authority's file", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-s3-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [trusted, other] = ["localhost", "elsewhere.test"].map((name) => selfSignedCertificate(name));
  const asked = async ({ key, cert }: { key: string; cert: string }, isTrusted: boolean) => {
    const server = createTlsServer({ key, cert }, (req, res) => {
      req.resume().on("end", () => fine(res, req));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const ca = path.join(folder, "ca.pem");
    writeFileSync(ca, cert);
    const endpoint = `https://localhost:${(server.address() as AddressInfo).port}`;
    const settings = { endpoint, name: "layers", prefix: "", pathStyle: true, keys: KEYS };
    const code = `const { Bucket } = await import(${JSON.stringify(path.resolve("src/s3/bucket.ts"))});
      const bucket = await Bucket.open(${JSON.stringify(settings)});
      console.log(JSON.stringify(await bucket.put("one", Buffer.from("x")).then(() => "fine", ({ code, message, help }) => [code, message, help])));`;
    const env = { PATH: process.env.PATH, ...(isTrusted && { NODE_EXTRA_CA_CERTS: ca }) };
    const { stdout, stderr } = await runProcess(process.execPath, ["--input-type=module", "-e", code], { env });
    server.close();
    server.closeAllConnections();
    assert.notEqual(stdout, "", stderr);
    return JSON.parse(stdout) as string | string[];
  };
  assert.equal(await asked(trusted!, true), "fine");
  for (const [certificate, isTrusted, why] of [
    [trusted!, false, /self-signed certificate/],
    [other!, true, /does not match|altnames/i],
  ] as const) {
    const [code, message, help] = (await asked(certificate, isTrusted)) as string[];
    assert.equal(code, "BUCKET_REFUSED");
    assert.match(message!, /^The certificate of the bucket "layers" at localhost:\d+ is not trusted: /);
    assert.match(message!, why);
    assert.match(help!, /NODE_EXTRA_CA_CERTS=FILE/);
  }
});

test("what is refused is told in words with what to do, at once, and never with the secret", async (t) => {
  const refusals: [Answer, RegExp][] = [
    [says(404, "NoSuchBucket"), /There is no bucket "layers"/],
    [says(403, "AccessDenied"), /refuses the platform's key what it needs below "some\/"/],
    [says(403, "SignatureDoesNotMatch"), /The keys for the bucket "layers" are wrong/],
    [says(403, "InvalidAccessKeyId"), /The keys for the bucket "layers" are wrong/],
    [says(400, "ExpiredToken"), /The credentials for the bucket "layers" have expired/],
    [says(301, "PermanentRedirect"), /is not in the region/],
    [says(400, "AuthorizationHeaderMalformed"), /is not in the region/],
    [says(400, "QuotaExceeded"), /The bucket "layers" is full/],
    [says(400, "OfItsOwn", "Not on a Sunday."), /refuses a request of the platform: Not on a Sunday\.$/],
  ];
  for (const [answer, words] of refusals) {
    const { bucket, requests } = await serve(t, [answer]);
    const told: unknown[] = [];
    bucket.onRequest((error) => told.push(error));
    const error = await bucket.put("one", Buffer.from("bytes")).then(
      () => assert.fail("it was refused"),
      (each: unknown) => each as Error & { code: string; help: string },
    );
    assert.equal(error.code, "BUCKET_REFUSED");
    assert.match(error.message, words);
    assert.ok(error.help.length > 10);
    assert.ok(!`${error.message} ${error.help} ${error.stack}`.includes(KEYS.secret));
    assert.equal(requests.length, 1);
    assert.deepEqual(told, [error]);
  }
});

test("what is not there is no failure", async (t) => {
  const { bucket } = await serve(t, [says(404, "NoSuchKey")]);
  const told: unknown[] = [];
  bucket.onRequest((error) => told.push(error));
  assert.equal(await bucket.get("one"), undefined);
  assert.equal(await bucket.head("one"), undefined);
  await bucket.delete("one");
  assert.deepEqual(
    told.filter((error) => error !== undefined),
    [],
  );
});

test("an address is signed for one object and a time, with nothing of the secret in it, in either style", async (t) => {
  for (const [pathStyle, place] of [
    [true, "localhost"],
    [false, "layers.s3.invalid"],
  ] as const) {
    const given = pathStyle ? {} : { pathStyle, endpoint: "https://s3.invalid" };
    const { bucket, requests } = await serve(t, [fine], given);
    const url = new URL(await bucket.presignedUrl("layers/ä b", 600));
    assert.equal(url.hostname, place);
    assert.equal(url.pathname, `${pathStyle ? "/layers" : ""}/some/layers/%C3%A4%20b`);
    assert.equal(url.searchParams.get("X-Amz-Expires"), "600");
    assert.equal(url.searchParams.get("X-Amz-SignedHeaders"), "host");
    assert.match(url.searchParams.get("X-Amz-Credential")!, /^AKID\/\d+\/us-east-1\/s3\/aws4_request$/);
    assert.doesNotMatch(url.href, /never told/);
    assert.deepEqual(requests, [], "nothing is asked");
  }
});
