import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { globSync, statSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { SVC } from "../program.ts";
import { embeddedOnly } from "../servers.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const WORKER = `
from pathlib import Path
from svc import Endpoint

@Endpoint(name="model")
def model():
    return len(Path(__file__).with_name("model.bin").read_bytes())
`;
const MODEL_BYTES = 8_000_000;
const CUT_BYTES = 3_000_000;

/** A project whose source layer is as large as its file of random bytes. */
function largeProject(t: TestContext): string {
  const dir = project(t, { "worker.py": WORKER });
  writeFileSync(path.join(dir, "model.bin"), randomBytes(MODEL_BYTES));
  return dir;
}

interface Proxy {
  readonly url: string;
  /** "PUT 0", "PATCH 3000000": uploads that came by, and from which byte on. */
  readonly uploads: string[];
  /** What one connection carries up before `onFull` is called for it. */
  limitBytes: number;
}

/** A way to the platform over which the connections can be cut. */
async function proxy(t: TestContext, platform: TestPlatform, onFull: (down: Socket, up: Socket) => void) {
  const way: Proxy = { url: "", uploads: [], limitBytes: CUT_BYTES };
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (down) => {
    const up = connect(Number(new URL(platform.url).port), "127.0.0.1");
    let bytes = 0;
    for (const [socket, other] of [
      [down, up],
      [up, down],
    ] as const) {
      sockets.add(socket.on("error", () => other.destroy()).on("close", () => other.destroy()));
    }
    up.pipe(down);
    down.on("data", (chunk) => {
      const head = /(PUT|PATCH) \/layers.*?\r\n\r\n/s.exec(chunk.toString("latin1"));
      if (head) way.uploads.push(`${head[1]} ${/upload-offset: (\d+)/i.exec(head[0])?.[1] ?? 0}`);
      bytes += chunk.length;
      if (!up.write(chunk)) down.pause();
      if (bytes < way.limitBytes) return;
      down.pause();
      onFull(down, up);
    });
    up.on("drain", () => bytes < way.limitBytes && down.resume());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return Object.assign(way, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

const offsetsOf = (uploads: readonly string[]) => uploads.map((upload) => Number(upload.split(" ")[1]));

async function answers(platform: TestPlatform): Promise<void> {
  const [endpoint] = await platform.endpoints();
  const call = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(call.json.output, MODEL_BYTES, call.text);
}

test("A deploy whose connection is cut again and again goes on from what has arrived", async (t) => {
  const platform = await startPlatform(t);
  const dir = largeProject(t);
  let cuts = 0;
  const { url, uploads } = await proxy(t, platform, (down, up) => {
    // In turn: what is on its way arrives, or is lost.
    if (cuts++ % 2 === 0) up.end();
    else up.resetAndDestroy();
    down.destroy();
  });
  const { code, stderr } = await platform.svc(["deploy"], { cwd: dir, env: { PLATFORM_URL: url } });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /The upload broke off, trying again\. .*\(connection lost\)/);
  assert.match(stderr, /\nUploaded /);
  const offsets = offsetsOf(uploads);
  assert.ok(cuts >= 2 && uploads[0] === "PUT 0", String(uploads));
  // A retry that came before the platform had noticed the cut is refused and repeated.
  for (let i = 1; i < offsets.length; i += 1) assert.ok(offsets[i]! >= offsets[i - 1]!, String(uploads));
  assert.ok(offsets.at(-1)! > CUT_BYTES, String(uploads));
  await answers(platform);
});

const skip = embeddedOnly("what is less than a part is in a killed platform's memory alone");

test("A deploy goes on when the platform is killed in the middle of the upload and started again", {
  skip,
}, async (t) => {
  const platform = await startPlatform(t);
  const dir = largeProject(t);
  const full = Promise.withResolvers<void>();
  const way = await proxy(t, platform, () => full.resolve());
  const deploy = platform.svc(["deploy"], { cwd: dir, env: { PLATFORM_URL: way.url } });
  await Promise.race([full.promise, deploy]);
  // What the proxy has passed on is with the platform once it is on the disk.
  await eventually(() => {
    const arrived = globSync(path.join(platform.dataDir, "**/incoming/*.part")).map((file) => statSync(file).size);
    assert.ok(arrived.some((bytes) => bytes > 0));
  });
  way.limitBytes = Number.POSITIVE_INFINITY;
  await platform.kill();
  const again = await platform.restart();
  const { code, stderr } = await deploy;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /The upload broke off, trying again\./);
  assert.ok(offsetsOf(way.uploads).at(-1)! > 0, String(way.uploads));
  await answers(again);
});

test("A deploy that was ended in the middle of the upload is continued by the next one", async (t) => {
  const platform = await startPlatform(t);
  const dir = largeProject(t);
  const ended = new AbortController();
  let cut = () => {};
  const way = await proxy(t, platform, (_down, up) => {
    cut = () => up.destroy();
    ended.abort();
  });
  const first = runProcess(SVC, ["deploy"], {
    cwd: dir,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PLATFORM_URL: way.url,
      PLATFORM_API_KEY: platform.key,
      SVC_CONFIG_DIR: path.join(platform.dir, "config"),
    },
    signal: ended.signal,
  });
  await assert.rejects(first, { name: "AbortError" });
  cut();
  way.limitBytes = Number.POSITIVE_INFINITY;
  const { code, stderr } = await platform.svc(["deploy"], { cwd: dir, env: { PLATFORM_URL: way.url } });
  assert.equal(code, 0, stderr);
  const offsets = offsetsOf(way.uploads);
  assert.ok(offsets[0] === 0 && offsets.at(-1)! > 0, String(way.uploads));
  await answers(platform);
});
