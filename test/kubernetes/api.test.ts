/** Requests to an API server that is played here, over real TLS: whom the platform trusts, what it sends, and what it makes of answers. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { KUBERNETES_WORDS_MAX_CHARS } from "../../src/domain/limits.ts";
import { ApiRefusal, KubernetesApi } from "../../src/kubernetes/api.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";

interface Seen {
  readonly line: string;
  readonly token: string;
  readonly body: string;
  readonly port: number;
}

async function open(t: TestContext, answer: (seen: Seen, res: ServerResponse) => void) {
  const certificate = selfSignedCertificate("localhost");
  const folder = mkdtempSync(path.join(tmpdir(), "svc-account-"));
  const write = (name: string, value: string) => writeFileSync(path.join(folder, name), value);
  write("token", "one\n");
  write("ca.crt", certificate.cert);
  write("namespace", "ns");
  const all: Seen[] = [];
  const server = createServer(certificate, (req: IncomingMessage, res: ServerResponse) => {
    text(req).then(
      (body) => {
        const token = req.headers.authorization ?? "";
        const seen = { line: `${req.method} ${req.url}`, token, body, port: req.socket.remotePort! };
        all.push(seen);
        answer(seen, res);
      },
      () => res.destroy(),
    );
  });
  server.listen(0, "localhost");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const api = new KubernetesApi({ host: "localhost", port, account: folder });
  t.after(() => {
    api.close();
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  });
  return { api, all, write, server };
}

const fine = (_seen: Seen, res: ServerResponse) => void res.end("{}");

test("A deletion with a body and what follows it on the same connection both arrive whole", async (t) => {
  const { api, all } = await open(t, fine);
  await api.ask("DELETE", "/pods/a", { body: { preconditions: { uid: "ü" } } });
  await api.ask("POST", "/pods", { body: { kind: "Pod" } });
  await api.ask("GET", "/pods");
  assert.deepEqual(
    all.map(({ line, body }) => [line, body]),
    [
      ["DELETE /pods/a", '{"preconditions":{"uid":"ü"}}'],
      ["POST /pods", '{"kind":"Pod"}'],
      ["GET /pods", ""],
    ],
  );
  assert.equal(new Set(all.map(({ port }) => port)).size, 1);
});

test("A token that is renewed in its place is sent from then on", async (t) => {
  const { api, all, write } = await open(t, fine);
  await api.ask("GET", "/pods");
  write("token", "two\n");
  await api.ask("GET", "/pods");
  assert.deepEqual(
    all.map(({ token }) => token),
    ["Bearer one", "Bearer two"],
  );
});

test("Whoever is not known by the account's certificate gets no token", async (t) => {
  const { api, all, write } = await open(t, fine);
  write("ca.crt", selfSignedCertificate("localhost").cert);
  await assert.rejects(api.ask("GET", "/pods"), /certificate/i);
  assert.equal(all.length, 0);
});

test("A refusal has Kubernetes' own words, as far as they are short; nonsense and answers without an end are errors", async (t) => {
  const answers: ((res: ServerResponse) => void)[] = [
    (res) => void res.writeHead(403).end(JSON.stringify({ reason: "Forbidden", message: "exceeded quota: none" })),
    (res) => void res.writeHead(500).end("x".repeat(100_000)),
    (res) => void res.end("no JSON"),
    (res) => void res.write("{", () => res.destroy()),
  ];
  const { api } = await open(t, (_seen, res) => answers.shift()!(res));
  await assert.rejects(api.ask("GET", "/a"), (error: ApiRefusal) => {
    assert.deepEqual([error.status, error.reason, error.message], [403, "Forbidden", "exceeded quota: none"]);
    return true;
  });
  await assert.rejects(api.ask("GET", "/b"), (error: ApiRefusal) => {
    assert.ok(error instanceof ApiRefusal && error.message.length === KUBERNETES_WORDS_MAX_CHARS);
    return true;
  });
  await assert.rejects(api.ask("GET", "/c"), SyntaxError);
  await assert.rejects(api.ask("GET", "/d"), /aborted|reset|terminated/i);
});

test("A platform outside of a cluster is told what it lacks", () => {
  const where = { host: "localhost", port: 1, account: "/nowhere" };
  assert.throws(() => new KubernetesApi(where), { code: "CONFIG_INVALID", message: /service account cannot be read/ });
});
