/** Answers of management that are larger than anybody needs, and callers that do not take them. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import type { ControlPlaneDeps } from "../../src/control-plane/context.ts";
import { sendError, sendJson, unsent } from "../../src/control-plane/http.ts";
import { answerLogs } from "../../src/control-plane/logs.ts";
import {
  GRAPHQL_ANSWER_MAX_CHARS,
  GRAPHQL_FIELDS_MAX,
  LOG_ANSWER_MAX_CHARS,
  MANAGEMENT_ANSWERS_MAX_BYTES,
} from "../../src/domain/limits.ts";
import type { LogReader } from "../../src/logs/log-store.ts";
import { createKeyChecker } from "../../src/store/key-check.ts";
import { eventually } from "../eventually.ts";
import { deploy, ENV, manifest, resource, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

test("A query that asks for what is large by many names is refused before it is written down", async (t) => {
  const platform = await startPlatform(t);
  const doc = "d".repeat(200_000);
  const layer = await platform.upload(Buffer.from("source"));
  const [known] = resource("hello").functions;
  const build = manifest(layer, { hello: resource("hello", { functions: [{ ...known!, doc }] }) });
  const [{ id }] = (await deploy(platform, build)).data.deployBuild.endpoints;
  const ask = (count: number) => {
    const fields = Array.from({ length: count }, (_, n) => `f${n}: functions`);
    return platform.ask(`{ endpoint(id: "${id}") { ${fields.join(" ")} } }`);
  };
  const few = await ask(10);
  assert.equal(few.errors, undefined);
  assert.equal(few.data.endpoint.f9[0].doc.length, doc.length);
  const fields = GRAPHQL_FIELDS_MAX - 1;
  assert.ok(fields * doc.length > GRAPHQL_ANSWER_MAX_CHARS);
  const many = await ask(fields);
  assert.deepEqual([many.status, many.data], [200, undefined]);
  assert.match(many.errors![0]!.message, /^The answer would have more than \d+ characters\. Ask for fewer fields/);
  assert.equal(many.errors![0]!.extensions.code, "BAD_INPUT");
});

test("Of logs the newest lines that fit an answer are in it, and it is said that there are more", async (t) => {
  const platform = await startPlatform(t);
  const [{ id }] = (await deploy(platform, await sample(platform), { env: ENV })).data.deployBuild.endpoints;
  const lineOf = (at: number) =>
    `${JSON.stringify({ at, worker: "w", stream: "stdout", text: "x".repeat(500_000) })}\n`;
  const pieces = Math.ceil((1.2 * LOG_ANSWER_MAX_CHARS) / 5_000_000);
  let read = 0;
  const logs: Pick<LogReader, "read"> = {
    async *read() {
      for (let piece = pieces; piece > 0; piece--) {
        read++;
        const lines = Array.from({ length: 10 }, (_, n) => lineOf(10 * piece + n));
        yield { endpointId: id, newestAt: 10 * piece + 9, lines };
      }
    },
  };
  const keys = createKeyChecker(platform.store, Date.now);
  const deps = { keys, store: platform.store, logs, clock: Date.now } as unknown as ControlPlaneDeps;
  const server = createServer((request, response) => {
    const url = new URL(request.url!, platform.url);
    answerLogs(deps, request, response, url).catch((error) => sendError(response, error));
  });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/logs/${id}?tail=100000`;
  const answer = await fetch(address, { headers: { authorization: `Bearer ${platform.adminKey}` } });
  const text = await answer.text();
  assert.equal(answer.status, 200);
  assert.ok(text.length <= LOG_ANSWER_MAX_CHARS + 1_000 && text.length > LOG_ANSWER_MAX_CHARS - 1_000_000);
  const lines = text.trimEnd().split("\n");
  assert.match(JSON.parse(lines[0]!).text, /^\[svc\] Older lines were left out here: /);
  assert.equal(JSON.parse(lines.at(-1)!).at, 10 * pieces + 9);
  assert.equal(JSON.parse(lines[1]!).at, 10 * pieces + 9 - (lines.length - 2), "none between is missing");
  assert.ok(read < pieces, "what would be left out is not read");
});

test("Callers that take nothing hold no more of large answers than is said; a further one is told, and short ones are answered", async (t) => {
  const part = MANAGEMENT_ANSWERS_MAX_BYTES / 4;
  const server = createServer((request, response) => {
    try {
      sendJson(response, 200, request.url === "/short" ? "s" : "x".repeat(part - 2));
    } catch (error) {
      sendError(response, error);
    }
  });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const status = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    await answer.arrayBuffer();
    return answer.status;
  };
  const callers = [1, 2, 3, 4].map(() => connect(port, "127.0.0.1").pause());
  t.after(() => {
    for (const caller of callers) caller.destroy();
  });
  for (const caller of callers) caller.write("GET /large HTTP/1.1\r\nhost: here\r\n\r\n");
  await eventually(() => assert.equal(unsent.heldBytes, MANAGEMENT_ANSWERS_MAX_BYTES));
  assert.deepEqual([await status("/large"), await status("/short")], [429, 200]);
  callers[0]!.destroy();
  await eventually(() => assert.equal(unsent.heldBytes, 3 * part));
  assert.equal(await status("/large"), 200);
});

test("Who follows a log and has taken its beginning holds nothing more, however long it stays", async (t) => {
  const platform = await startPlatform(t);
  const [{ id }] = (await deploy(platform, await sample(platform), { env: ENV })).data.deployBuild.endpoints;
  const print = (text: string) =>
    platform.logs.append({ endpointId: id, workerId: "w", jobId: "", stream: "stdout", text });
  for (let n = 0; n < 100; n++) print(`${n} ${"x".repeat(10_000)}`);
  await platform.logs.idle();
  const controller = new AbortController();
  t.after(() => controller.abort());
  const answer = await fetch(`${platform.url}/logs/${id}?follow=1`, {
    headers: { authorization: `Bearer ${platform.adminKey}` },
    signal: controller.signal,
  });
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of answer.body!.values({ preventCancel: true })) {
    text += decoder.decode(part, { stream: true });
    if (text.split("\n").length === 101) break;
  }
  await eventually(() => assert.equal(unsent.heldBytes, 0));
  print("after");
  for await (const part of answer.body!) {
    text += decoder.decode(part, { stream: true });
    if (text.includes('"after"')) break;
  }
});
