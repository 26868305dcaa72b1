import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import type { ControlPlaneDeps } from "../../src/control-plane/context.ts";
import { answerLogs, LogFollower } from "../../src/control-plane/logs.ts";
import { LOG_FOLLOWER_MAX_BYTES } from "../../src/domain/limits.ts";
import type { LogReader } from "../../src/logs/log-store.ts";
import { createKeyChecker } from "../../src/store/key-check.ts";
import { startPlatform } from "./platform.ts";

test("Who follows a log and does not read holds a bounded part of it, and is told how much was left out", async (t) => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const caller = connect((server.address() as AddressInfo).port, "127.0.0.1");
  t.after(() => {
    caller.destroy();
    server.close();
  });
  caller.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const [, response] = (await once(server, "request")) as [unknown, ServerResponse];
  const follower = new LogFollower(response, () => 7);
  const line = `${JSON.stringify({ at: 7, worker: "w", job: "", stream: "stdout", text: "x".repeat(9_000) })}\n`;
  const lines = new Array<string>(10).fill(line);
  let sent = 0;
  // More than the system's own buffers hold on top.
  while (sent < 64 * 1024 * 1024) {
    follower.write(lines);
    sent += lines.length * line.length;
    assert.ok(response.writableLength < LOG_FOLLOWER_MAX_BYTES + 2 * lines.length * line.length);
    await new Promise((resolve) => setImmediate(resolve));
  }

  let text = "";
  const told = new Promise<number>((resolve) => {
    caller.setEncoding("utf8");
    caller.on("data", (part: string) => {
      text += part;
      const notice = /\[svc\] (\d+) lines were left out here/.exec(text);
      if (notice !== null) resolve(Number(notice[1]));
      text = text.slice(-2_000);
    });
  });
  const leftOut = await told;
  assert.ok(leftOut > 0 && leftOut * line.length < sent);
  follower.write(["after\n"]);
  while (!text.includes("after\n")) await once(caller, "data");
});

test("Who closes the sending side before its answer's turn is let go, and nothing is written behind that end", async (t) => {
  const platform = await startPlatform(t);
  const { store, logs, closing, adminKey } = platform;
  const keys = createKeyChecker(store, Date.now);
  const { promise: answered, resolve, reject } = Promise.withResolvers<void>();
  const first = Promise.withResolvers<ServerResponse>();
  const errors: Error[] = [];
  const server = createServer((request, response) => {
    if (request.url === "/first") return first.resolve(response);
    response.on("error", (error) => errors.push(error));
    const { socket } = request;
    const slow: LogReader = {
      follow: (...args) => logs.follow(...args),
      async *read(...args) {
        if (!socket.readableEnded) await once(socket, "end");
        yield* logs.read(...args);
      },
    };
    const deps = { keys, store, logs: slow, closing: closing.signal, clock: Date.now };
    const url = new URL(request.url!, platform.url);
    answerLogs(deps as unknown as ControlPlaneDeps, request, response, url).then(resolve, reject);
  });
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const caller = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  const head = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${adminKey}\r\n\r\n`;
  caller.resume().end(`GET /first ${head}GET /logs?follow=1 ${head}`);
  const waiting = await first.promise;
  await answered;
  await new Promise((done) => setImmediate(done)); // So late comes the error.
  waiting.end();
  await once(caller, "close");
  assert.deepEqual(errors, []);
});
