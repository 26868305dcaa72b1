/** Two platforms on one database: calls of every kind through the one that waits, and what becomes of them when the other ends. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import WebSocket from "ws";
import { isRunning } from "../../src/lib/start-time.ts";
import { lacksServers } from "../campaign/platforms.ts";
import { eventually } from "../eventually.ts";
import { svc } from "./platform.ts";
import {
  breath,
  isReady,
  listsEndpoints,
  type ReplicaServers,
  seenBy,
  startReplicas,
  startServers,
  TcpWay,
} from "./replicas.ts";

const skip = await lacksServers();

const WORKER = `
import os
import time
from svc import Endpoint, WebSocket

@Endpoint(name="double", workers=(1, 1), max_concurrency=8)
def double(x, go=""):
    while go and not os.path.exists(go):
        time.sleep(0.02)
    return 2 * x

@Endpoint(name="count", workers=(1, 1))
def count(n):
    for i in range(n):
        print(f"counted {i}")
        yield i

api = Endpoint(name="web", workers=(1, 1), max_concurrency=8)

@api.post("/echo")
async def echo(text: str) -> dict:
    return {"text": text}

@api.websocket("/talk")
async def talk(ws: WebSocket):
    async for message in ws:
        await ws.send("you said " + message)
`;

describe("two platforms on one database", { skip }, () => {
  let servers: ReplicaServers;

  before(async () => {
    servers = await startServers();
  });
  after(() => servers?.stop());

  test("the one that waits takes calls of every kind, and says who has the database", async (t) => {
    const replicas = await startReplicas(t, servers, "every_kind");
    const { first, call } = replicas;
    const { double, count, web } = await replicas.deploy(WORKER);
    const second = await replicas.another();
    assert.equal(second.firstKey, undefined);
    await isReady(replicas, second);

    const sync = await call(second, `${double}/runsync`, { body: { input: { x: 4 } } });
    assert.deepEqual([sync.status, sync.json.output], [200, 8], sync.text);
    const run = await call(second, `${count}/run`, { body: { input: { n: 3 } } });
    const chunks: number[] = [];
    await eventually(async () => {
      const { json } = await call(second, `${count}/stream/${run.json.id}`);
      chunks.push(...json.stream.map((each: { output: number }) => each.output));
      assert.equal(json.status, "COMPLETED");
    });
    assert.deepEqual(chunks, [0, 1, 2]);
    const never = path.join(first.shared, "never");
    const waits = await call(second, `${double}/run`, { body: { input: { x: 1, go: never } } });
    const cancelled = await call(second, `${double}/cancel/${waits.json.id}`, { method: "POST" });
    assert.equal(cancelled.json.status, "CANCELLED");
    assert.equal((await call(first, `${double}/status/${waits.json.id}`)).json.status, "CANCELLED");

    const echo = await call(second, `${web}/echo`, { body: { text: "hear" } });
    assert.deepEqual([echo.status, echo.json], [200, { text: "hear" }], echo.text);
    const address = new URL(`${web}/talk`, second.url);
    address.protocol = "ws:";
    const socket = new WebSocket(address, { headers: { authorization: `Bearer ${first.key}` } });
    const said = new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("open", () => socket.send("hello"));
      socket.on("message", (data) => resolve(data.toString()));
    });
    assert.equal(await said, "you said hello");
    socket.close();

    const asked = await call(second, "/graphql", { body: { query: "{ myself { endpoints { name } } }" } });
    assert.equal(asked.json.data.myself.endpoints.length, 3, asked.text);
    assert.match((await call(second, "/", { key: null, headers: { accept: "text/html" } })).text, /<html/);
    await eventually(async () => {
      const env = { PLATFORM_URL: second.url, PLATFORM_API_KEY: first.key };
      assert.match((await svc(["logs", "count"], { env })).stdout, /counted 2/);
    });

    for (const dataDir of [first.dataDir, second.dataDir]) {
      const { replicas: seen } = await replicas.status(dataDir);
      assert.deepEqual(
        seen?.map(({ url, owns }) => [url, owns]),
        [
          [first.url, true],
          [second.url, false],
        ],
      );
    }
    const words = await svc(["platform", "status", "--data-dir", second.dataDir]);
    assert.match(words.stdout, /State {4}waiting/);
    assert.match(
      words.stdout,
      /Replicas 2\n {9}http\S+ +has the database.*\n {9}http\S+ +takes calls for it \(this one\)/,
    );
  });

  test("a key that is revoked at one is refused at the other when the call returns", async (t) => {
    const replicas = await startReplicas(t, servers, "revoked");
    const { first, call } = replicas;
    const second = await replicas.another();
    await isReady(replicas, second);
    const { createKey: made } = await first.query<{ createKey: { key: { id: string }; secret: string } }>(
      'mutation { createKey(input: { name: "short", scopes: ["read"] }) { key { id } secret } }',
    );
    const ask = (at: typeof second) => call(at, "/v2/none/health", { key: made.secret });
    assert.equal((await ask(second)).json.code, "ENDPOINT_NOT_FOUND");
    const query = "mutation ($id: String!) { revokeKey(id: $id) }";
    await call(second, "/graphql", { body: { query, variables: { id: made.key.id } } });
    assert.equal((await ask(second)).status, 401);
  });

  test("the owner is killed under load: the other takes its place, and none of its own calls fails", async (t) => {
    const replicas = await startReplicas(t, servers, "killed");
    const { first, call } = replicas;
    const { double, web } = await replicas.deploy(WORKER);
    const second = await replicas.another();
    await isReady(replicas, second);
    let [answered, goesOn] = [0, true];
    const worst: number[] = [];
    const caller = async (n: number) => {
      for (let i = 0; goesOn; i++) {
        const x = n * 1000 + i;
        const began = performance.now();
        const answer =
          n === 0
            ? await call(second, `${web}/echo?text=${x}`, { method: "POST", body: { text: `${x}` } })
            : await call(second, `${double}/runsync`, { body: { input: { x } } });
        // What a function may have begun with is not done twice: those calls are told.
        if (n !== 0 || answer.status === 200) assert.equal(answer.status, 200, answer.text);
        else assert.match(answer.text, /SHUTTING_DOWN|WORKER_LOST/);
        if (n !== 0) assert.equal(answer.json.output, 2 * x, answer.text);
        worst.push(performance.now() - began);
        answered++;
        await breath();
      }
    };
    const callers = Array.from({ length: 5 }, (_, n) => caller(n));
    const go = path.join(first.shared, "go");
    const held = call(second, `${double}/runsync`, { body: { input: { x: 21, go } } });
    await eventually(() => assert.ok(answered > 30));
    await first.kill();
    const before = answered;
    await eventually(() => assert.ok(answered > before + 30));
    writeFileSync(go, "");
    const { json, text } = await held;
    assert.equal(json.output, 42, text);
    goesOn = false;
    await Promise.all(callers);
    t.diagnostic(`${answered} calls, the longest took ${Math.round(Math.max(...worst))} ms`);
    await eventually(async () => {
      const seen = await seenBy(second.dataDir);
      assert.deepEqual(
        seen.filter(({ owns }) => owns).map(({ url }) => url),
        [second.url],
      );
    });

    // It comes back, and waits in its turn. The workers that it left end.
    const { pid: launcher } = JSON.parse(readFileSync(path.join(first.dataDir, "launcher.json"), "utf8"));
    const again = await first.restart();
    await isReady(replicas, again);
    const back = await call(again, `${double}/runsync`, { body: { input: { x: 5 } } });
    assert.equal(back.json.output, 10, back.text);
    await eventually(() => assert.ok(!existsSync(`/proc/${launcher}`)));
  });

  test("the owner is told to stop under load: it is unready, gives the database to the other, and no call fails", async (t) => {
    const replicas = await startReplicas(t, servers, "handed_over");
    const { first, call } = replicas;
    const { double, web } = await replicas.deploy(WORKER);
    const second = await replicas.another();
    await isReady(replicas, second);
    let [answered, goesOn, isReadyAtFirst] = [0, true, true];
    // As a load balancer sees it.
    const looks = (async () => {
      while (isReadyAtFirst) {
        const { status } = await call(first, "/readyz", { key: null });
        isReadyAtFirst = status === 200;
        await delay(100);
      }
    })();
    let longest = 0;
    const caller = async (n: number) => {
      for (let i = 0; goesOn; i++) {
        const x = n * 1000 + i;
        const to = isReadyAtFirst && n % 2 === 0 ? first : second;
        const began = performance.now();
        const answer =
          n < 2
            ? await call(to, `${web}/echo`, { body: { text: `${x}` } })
            : await call(to, `${double}/runsync`, { body: { input: { x } } });
        assert.equal(answer.status, 200, answer.text);
        if (n < 2) assert.equal(answer.json.text, `${x}`);
        else assert.equal(answer.json.output, 2 * x, answer.text);
        longest = Math.max(longest, performance.now() - began);
        answered++;
        await breath();
      }
    };
    const manager = async () => {
      while (goesOn) await listsEndpoints(replicas, second);
    };
    const callers = [...Array.from({ length: 6 }, (_, n) => caller(n)), manager(), manager()];
    await eventually(() => assert.ok(answered > 30));
    const go = path.join(first.shared, "go");
    const running = call(first, `${double}/runsync`, { body: { input: { x: 21, go } } });
    await eventually(async () => {
      assert.equal((await call(first, `${double}/health`)).json.jobs.inProgress > 0, true);
    });
    const stopped = svc(["platform", "stop", "--data-dir", first.dataDir]);
    await looks;
    writeFileSync(go, "");
    const { json, text } = await running;
    assert.equal(json.output, 42, text);
    assert.equal(json.retries ?? 0, 0, "what ran was finished");
    assert.equal((await stopped).code, 0);
    const before = answered;
    await eventually(() => assert.ok(answered > before + 30));
    goesOn = false;
    await Promise.all(callers);
    t.diagnostic(`${answered} calls, the longest took ${Math.round(longest)} ms`);
    const { replicas: seen } = await replicas.status(second.dataDir);
    assert.deepEqual(
      seen?.map(({ url, owns }) => [url, owns]),
      [[second.url, true]],
    );
  });

  test("the owner stands still for ten seconds: the other has its place by then, and the one that wakes ends", async (t) => {
    const replicas = await startReplicas(t, servers, "stopped");
    const { first, call } = replicas;
    const { double, web } = await replicas.deploy(WORKER);
    const second = await replicas.another();
    await isReady(replicas, second);
    const { createKey: made } = await first.query<{ createKey: { key: { id: string }; secret: string } }>(
      'mutation { createKey(input: { name: "short", scopes: ["invoke"] }) { key { id } secret } }',
    );
    const withRevoked = (at: { readonly url: string }) =>
      call(at, `${web}/echo`, { key: made.secret, body: { text: "x" } });
    assert.equal((await withRevoked(first)).status, 200);
    const follows = await fetch(`${second.url}/events`, { headers: { authorization: `Bearer ${first.key}` } });
    assert.equal(follows.status, 200);
    const followed = follows.text().catch(() => "cut off");
    process.kill(first.pid, "SIGSTOP");
    const stoppedAt = performance.now();
    const calls = Array.from({ length: 10 }, (_, x) => call(second, `${double}/runsync`, { body: { input: { x } } }));
    for (const [x, answer] of (await Promise.all(calls)).entries()) {
      assert.deepEqual([answer.status, answer.json.output], [200, 2 * x], answer.text);
    }
    await followed; // What was passed on does not wait for the one that stands still.
    const query = "mutation ($id: String!) { revokeKey(id: $id) }";
    await call(second, "/graphql", { body: { query, variables: { id: made.key.id } } });
    assert.equal((await withRevoked(second)).status, 401);
    // What it knows of keys is old when it wakes: callers that are there by then are refused.
    const late = Array.from({ length: 5 }, () => withRevoked(first).catch(() => undefined));
    await delay(Math.max(0, 10_000 - (performance.now() - stoppedAt)));
    process.kill(first.pid, "SIGCONT");
    for (const answer of await Promise.all(late)) assert.notEqual(answer?.status, 200, answer?.text);
    await eventually(() => assert.ok(!isRunning(first.pid)));
    const { json, text } = await call(second, `${double}/runsync`, { body: { input: { x: 11 } } });
    assert.equal(json.output, 22, text);
  });

  test("one with gateway processes takes calls while it waits, and starts them with the database", async (t) => {
    const replicas = await startReplicas(t, servers, "gateways");
    const { first, call } = replicas;
    const { double } = await replicas.deploy(WORKER);
    const second = await replicas.another({ SVC_GATEWAYS: "2" });
    await isReady(replicas, second);
    const answers = async (x: number) => {
      const { status, json, text } = await call(second, `${double}/runsync`, { body: { input: { x } } });
      assert.deepEqual([status, json.output], [200, 2 * x], text);
    };
    await answers(1);
    await first.stop();
    for (let x = 0; x < 10; x++) await answers(x);
    const record = () => JSON.parse(readFileSync(path.join(second.dataDir, "platform.json"), "utf8"));
    await eventually(() => assert.equal(record().gateways?.pids.length, 2));
    for (const pid of record().gateways.pids) assert.ok(isRunning(pid));
    for (let x = 0; x < 10; x++) await answers(x);
  });

  test("the link is cut while both live: calls are held, and answered when it is whole again", async (t) => {
    const way = await TcpWay.open(t);
    const listen = {
      SVC_REPLICA_LISTEN: `tls://127.0.0.1:${way.to}`,
      SVC_REPLICA_PUBLIC: `tls://127.0.0.1:${way.port}`,
    };
    const replicas = await startReplicas(t, servers, "cut", listen);
    const { first, call } = replicas;
    const { double } = await replicas.deploy(WORKER);
    const second = await replicas.another({ SVC_REPLICA_LISTEN: "tls://127.0.0.1:0" });
    await isReady(replicas, second);
    const go = path.join(first.shared, "go");
    const running = call(second, `${double}/runsync`, { body: { input: { x: 1, go } } });
    await eventually(async () => {
      assert.equal((await call(first, `${double}/health`)).json.jobs.inProgress, 1);
    });
    way.cut();
    await eventually(async () => assert.equal((await call(second, "/readyz", { key: null })).status, 503));
    const held = call(second, `${double}/runsync`, { body: { input: { x: 2 } } });
    const own = await call(first, `${double}/runsync`, { body: { input: { x: 3 } } });
    assert.equal(own.json.output, 6, own.text);
    await eventually(async () => assert.ok(((await replicas.status(second.dataDir)).held as number) >= 2));
    way.mend();
    assert.equal((await held).json.output, 4);
    writeFileSync(go, "");
    const { json, text } = await running;
    assert.equal(json.output, 2, text);
    const { replicas: seen } = await replicas.status(second.dataDir);
    assert.equal(seen?.find(({ owns }) => owns)?.url, first.url, "nothing was taken over");
  });

  test("one that waits is killed, or stopped: the owner does not notice, and its callers neither", async (t) => {
    const replicas = await startReplicas(t, servers, "waiting");
    const { first, call } = replicas;
    const { double } = await replicas.deploy(WORKER);
    const second = await replicas.another();
    const third = await replicas.another();
    await isReady(replicas, second);
    await isReady(replicas, third);
    const go = path.join(first.shared, "go");
    const held = call(second, `${double}/runsync`, { body: { input: { x: 7, go } } });
    await eventually(async () => {
      assert.equal((await call(first, `${double}/health`)).json.jobs.inProgress, 1);
    });
    const stopped = svc(["platform", "stop", "--data-dir", second.dataDir]);
    await third.end("SIGKILL");
    await eventually(async () => {
      assert.equal((await call(second, "/readyz", { key: null }).catch(() => undefined))?.status ?? 503, 503);
    });
    writeFileSync(go, "");
    assert.equal((await held).json.output, 14, "it finishes its calls before it ends");
    assert.equal((await stopped).code, 0);
    const own = await call(first, `${double}/runsync`, { body: { input: { x: 1 } } });
    assert.equal(own.json.output, 2);
  });
});
