import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import { eventually } from "../eventually.ts";
import { hostPid } from "../host-pid.ts";
import { openFiles } from "../open-files.ts";
import { deployApi } from "./load-balanced/deployed.ts";

describe("streams of a load-balanced endpoint", () => {
  const on = deployApi();

  test("server-sent events leave as they are made: the first arrives before there is a second", async () => {
    await on.platform.call(`${on.url.live}/pid`);
    const response = await fetch(`${on.url.live}/ticks?count=2&pause=0&go=tick`, {
      headers: { authorization: `Bearer ${on.platform.key}` },
    });
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const reader = response.body!.getReader();
    const first = await reader.read();
    assert.equal(Buffer.from(first.value!).toString(), "data: 0\n\n");
    // Only now may the second be made.
    writeFileSync(path.join(on.platform.shared, "notes", "tick"), "");
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += Buffer.from(part.value);
    assert.equal(text, "data: 1\n\n");
  });

  test("an upload reaches an async function part by part, and streams back while it is still being sent", async () => {
    const sum = await upload(`${on.url.live}/sum`, [Buffer.alloc(3_000_000), Buffer.alloc(3_000_000)]);
    assert.deepEqual(JSON.parse(sum), { size: 6_000_000, several: true });

    const { req, response } = on.open(`${on.url.live}/mirror`, "POST");
    req.write(Buffer.alloc(70_000, "a"));
    const res = await response;
    await once(res, "readable");
    const early = (res.read() as Buffer).length;
    assert.ok(early > 0, "an answer comes before the upload ends");
    req.end(Buffer.alloc(70_000, "b"));
    let bytes = early;
    for await (const chunk of res) bytes += (chunk as Buffer).length;
    assert.equal(bytes, 140_000);
  });

  test("a caller that leaves cancels an async function by CancelledError and a sync one by its cancelled flag", async () => {
    for (const [target, begun, ended] of [
      [`${on.url.live}/wait`, "wait-began", "wait-cancelled"],
      [`${on.url.api}/sleep?seconds=30`, "sleep-began", "sleep-cancelled-True"],
      [`${on.url.live}/forever`, "forever-began", "forever-ended"],
    ] as const) {
      const { req } = on.open(target, "GET");
      await on.noted(begun);
      req.destroy();
      await on.noted(ended);
    }
  });

  test("a worker killed in the middle of an answer breaks that answer off; the next request is served", async () => {
    const pid = (await on.platform.call(`${on.url.live}/pid`)).json as string;
    const { response } = on.open(`${on.url.live}/ticks?count=1000&pause=0.05`, "GET");
    const res = await response;
    await once(res, "data");
    process.kill(hostPid(pid)!, "SIGKILL");
    await assert.rejects(
      async () => {
        for await (const _ of res);
      },
      { code: "ECONNRESET" },
    );
    const next = await on.platform.call(`${on.url.live}/pid`);
    assert.equal(next.status, 200);
    assert.notEqual(next.json, pid);
  });

  test("1,000 slow readers of endless answers: bounded memory, and others are answered", {
    timeout: 300_000,
  }, async () => {
    await on.platform.call(`${on.url.live}/pid`);
    const base = rssMb(on.platform.pid);
    const { port, pathname } = new URL(`${on.url.live}/forever`);
    const readers: Socket[] = [];
    for (let batch = 0; batch < 10; batch++) {
      const opened = Array.from({ length: 100 }, async () => {
        const socket = connect(Number(port), "127.0.0.1");
        readers.push(socket);
        socket.on("error", () => {});
        socket.write(`GET ${pathname} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${on.platform.key}\r\n\r\n`);
        await once(socket, "data");
        socket.pause();
      });
      await Promise.all(opened);
    }
    await delay(1000); // long enough to fill any memory that is not bounded: the functions never stop
    const grown = rssMb(on.platform.pid) - base;
    assert.ok(grown < 400, `the platform grew by ${grown} MB`);
    assert.equal((await on.platform.call(`${on.url.live}/pid`)).status, 200);
    for (const socket of readers) socket.destroy();
  });

  test("a WebSocket route talks both ways: texts, bytes, large messages, its parameters and subprotocol", async () => {
    const socket = chat("lobby?n=3", ["v1", "v2"]);
    await once(socket, "open");
    assert.equal(socket.protocol, "v2");
    socket.send("grüße");
    assert.deepEqual(JSON.parse(String((await once(socket, "message"))[0])), { room: "lobby", n: 3, text: "grüße" });
    for (const size of [0, 125, 126, 70_000, 1_000_000]) {
      const bytes = Buffer.alloc(size, "ab");
      socket.send(bytes);
      assert.deepEqual((await once(socket, "message"))[0], bytes);
    }
    socket.ping("still there?");
    assert.equal(String((await once(socket, "pong"))[0]), "still there?");
    socket.close(4001, "bye");
    assert.deepEqual(String(await once(socket, "close")), "4001,bye");
    await on.noted("chat-closed-4001");
  });

  test("what is sent to a WebSocket whose function does not read waits with its caller, and arrives once it reads", async () => {
    const socket = chat("deaf");
    const heldKb = async () => JSON.parse(String((await once(socket, "message"))[0])).heldKb as number;
    const before = await heldKb();
    const flood = 96;
    for (let n = 0; n < flood; n++) socket.send(Buffer.alloc(1024 * 1024));
    socket.send("end");
    let held = before;
    // Until nothing moves any more.
    for (let still = 0, waiting = socket.bufferedAmount; still < 5; waiting = socket.bufferedAmount) {
      held = await heldKb();
      still = socket.bufferedAmount === waiting ? still + 1 : 0;
    }
    assert.ok(held - before < 32 * 1024, `the worker grew by ${held - before} KB`);
    assert.ok(socket.bufferedAmount > 32 * 1024 * 1024);
    writeFileSync(path.join(on.platform.shared, "notes", "hear"), "");
    const sizes: number[] = [];
    while (sizes.length === 0) {
      const { size } = JSON.parse(String((await once(socket, "message"))[0]));
      if (size !== undefined) sizes.push(size);
    }
    assert.deepEqual(sizes, [flood * 1024 * 1024]);
    socket.close();
  });

  test("a WebSocket is refused without a key, with wrong parameters, by its function, and off its routes", async () => {
    for (const [target, headers, status] of [
      ["lobby", { authorization: "" }, 401],
      ["lobby?n=x", {}, 422],
      ["closed", {}, 403],
      ["a/b", {}, 404],
    ] as const) {
      const socket = chat(target, [], headers);
      const [, response] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
      assert.equal(response.statusCode, status, target);
      response.resume();
    }
    const plain = await on.platform.call(`${on.url.live}/chat/lobby`);
    assert.equal(plain.status, 405);
  });

  test("a failing WebSocket function closes with 1011; a caller that breaks off cancels it", async () => {
    const broken = chat("broken");
    const [code, reason] = (await once(broken, "close")) as [number, Buffer];
    assert.deepEqual([code, String(reason)], [1011, "the function failed"]);
    const leaving = chat("lobby");
    await once(leaving, "open");
    leaving.terminate();
    await on.noted("chat-c", (name) => name === "chat-cancelled" || name === "chat-closed-1006");
  });

  test("an ASGI application gets its lifespan, its root path, and bodies streamed both ways; it hears of a caller that left", async () => {
    const { req, response } = on.open(`${on.url.whole}/some/path`, "POST");
    req.write("hello");
    const res = await response;
    assert.equal(res.statusCode, 202);
    const root = new URL(on.url.whole!).pathname;
    assert.equal(res.headers["x-path"], `${root}/some/path`);
    req.end(" there");
    let text = "";
    for await (const chunk of res) text += chunk;
    assert.equal(text, `yes ${root} hello there`);

    const leaving = on.open(`${on.url.whole}/`, "POST");
    leaving.req.write("wait");
    await on.noted("app-waits");
    leaving.req.destroy();
    await on.noted("app-disconnected");
  });

  test("an ASGI application that sends to a caller who left gets an OSError, which is no failure of its own", async () => {
    const { req, response } = on.open(`${on.url.whole}/endless`, "GET");
    await once(await response, "data");
    req.destroy();
    await on.noted("app-sends-no-more");
    const { stdout } = await on.platform.svc(["logs", "whole", "--app", "app"]);
    assert.doesNotMatch(stdout, /Traceback|Disconnected/);
  });

  test("an ASGI application that asks for events when its answer is whole hears that there are no more", async () => {
    assert.equal((await on.platform.call(`${on.url.whole}/after`)).text, "whole");
    await on.noted("http.request-http.disconnect-http.disconnect");
  });

  test("the head of an ASGI application's answer arrives though there is no body yet", async () => {
    const response = await fetch(`${on.url.whole}/later`, { headers: { authorization: `Bearer ${on.platform.key}` } });
    assert.deepEqual([response.status, response.headers.get("content-type")], [201, "text/event-stream"]);
    writeFileSync(path.join(on.platform.shared, "notes", "later"), "");
    assert.equal(await response.text(), "data: now\n\n");
  });

  for (const sizes of [[65_536, 0], [65_536, 65_536, 1], [1, 65_535, 65_537], [2_000_000], [100_000, 3_000_000, 0]]) {
    test(`an ASGI application's answer in parts of ${sizes.join(", ")} bytes arrives whole`, async () => {
      const { status, text } = await on.platform.call(`${on.url.whole}/parts?${sizes}`);
      assert.deepEqual([status, text.length], [200, sizes.reduce((sum, size) => sum + size)]);
    });
  }

  test("a WebSocket whose function fails leaves no descriptor behind, whatever its peer still says", async () => {
    const sockets = () => openFiles(on.platform.pid).filter((file) => file.startsWith("socket:")).length;
    const before = sockets();
    for (let n = 0; n < 20; n++) {
      const socket = chat("broken");
      await once(socket, "close");
    }
    // Of workers there may be one more, or two.
    await eventually(() => assert.ok(sockets() < before + 10, `${sockets()} sockets, ${before} before`));
  });

  function chat(target: string, protocols: string[] = [], headers: Record<string, string> = {}): WebSocket {
    const address = `${on.url.live!.replace("http", "ws")}/chat/${target}`;
    const all = { authorization: `Bearer ${on.platform.key}`, ...headers };
    const socket = new WebSocket(address, protocols, { headers: all });
    socket.on("error", () => {});
    return socket;
  }

  async function upload(target: string, parts: readonly Buffer[]): Promise<string> {
    const { req, response } = on.open(target, "POST");
    for (const part of parts) req.write(part);
    req.end();
    let text = "";
    for await (const chunk of await response) text += chunk;
    return text;
  }
});

function rssMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1024;
}
