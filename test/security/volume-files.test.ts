/** Files of volumes over the API: what is stored, what is refused, and what never leaves the volume. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { request as httpRequest } from "node:http";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { breakOff } from "../control-plane/break-off.ts";
import { deploy, manifest, resource } from "../control-plane/builds.ts";
import { startPlatform } from "../control-plane/platform.ts";
import { eventually } from "../eventually.ts";
import { openFiles } from "../open-files.ts";

const PLACE = 'app: "shop", environment: "production"';
const BASE = "/volumes/shop/production/models";

async function start(t: TestContext, config: Parameters<typeof startPlatform>[1] = {}) {
  const platform = await startPlatform(t, config);
  await platform.ask(`mutation { createVolume(${PLACE}, name: "models") { name } }`);
  const folder = path.join(platform.dir, "volumes/shop/production/models");
  const send = async (
    method: string,
    at: string,
    body?: string,
    headers: Record<string, string> = {},
    key = platform.adminKey,
  ) => {
    const response = await fetch(platform.url + BASE + at, {
      method,
      body,
      headers: { authorization: `Bearer ${key}`, ...headers },
    });
    return { status: response.status, text: await response.text() };
  };
  return { platform, folder, send, uploads: path.join(path.dirname(folder), ".uploads") };
}

test("A file arrives whole, in parts or not at all, with the folders around it", async (t) => {
  const { folder, send, uploads } = await start(t, { uploadIdleMs: 60_000 });
  assert.equal((await send("PUT", "/files/a/b/one.txt", "hello")).status, 200);
  assert.equal((await send("GET", "/files/a/b/one.txt")).text, "hello");
  assert.equal((await send("PUT", "/files/a/b/one.txt", "")).status, 200);
  assert.deepEqual(await send("GET", "/files/a/b/one.txt"), { status: 200, text: "" });
  const lines = (await send("GET", "/entries/a")).text.trim().split("\n");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)).map(({ name, kind }) => [name, kind]),
    [["a", "folder"], ["b", "folder"]], // biome-ignore format: pairs
  );

  const id = "0f8fad5b-d9cb-469f-a165-70867728950e";
  const part = (text: string, offset: number, complete: boolean) =>
    send("PUT", `/files/two?upload=${id}`, text, {
      "upload-offset": `${offset}`,
      "upload-complete": complete ? "?1" : "?0",
    });
  assert.equal((await part("one ", 0, false)).status, 200);
  assert.equal((await part("xxx", 4, false)).status, 200);
  assert.ok(!existsSync(path.join(folder, "two")));
  assert.equal((await part("two", 4, true)).status, 200, "a part may be sent again");
  assert.equal((await send("GET", "/files/two")).text, "one two");
  assert.match((await part("three", 7, true)).text, /not known any more/);
  assert.equal((await part("gone", 0, false)).status, 200);
  assert.equal((await send("DELETE", `/uploads/${id}`)).status, 200);
  assert.deepEqual(readdirSync(uploads), []);

  // A connection that breaks off leaves nothing.
  const { platform, ...rest } = await start(t);
  const headers = { authorization: `Bearer ${platform.adminKey}`, "content-length": "1000" };
  const broken = httpRequest(`${platform.url}${BASE}/files/deep/broken`, { method: "PUT", headers });
  broken.on("error", () => {});
  broken.write("a beginning");
  await eventually(() => assert.equal(readdirSync(rest.uploads).length, 1));
  broken.destroy();
  await eventually(() => assert.deepEqual(readdirSync(rest.uploads), []));
  assert.deepEqual(readdirSync(rest.folder), []);
});

test("What is in the way, missing or no plain file is told", async (t) => {
  const { folder, send } = await start(t);
  await send("PUT", "/files/folder/file", "x");
  execFileSync("mkfifo", [path.join(folder, "pipe")]);
  const expected: [string, string, number, RegExp][] = [
    ["GET", "/files/nothing", 404, /There is no "models\/nothing"/],
    ["GET", "/files/folder", 400, /"models\/folder" is a folder/],
    ["GET", "/files/pipe", 400, /no plain file/],
    ["PUT", "/files/folder", 409, /is a folder/],
    ["PUT", "/files/folder/file/below", 400, /leads over a file or a link/],
    ["PUT", "/files/", 400, /A file has a name/],
    ["DELETE", "/files/folder", 409, /is not empty/],
    ["DELETE", "/files/", 400, /all of the volume's files/],
    ["DELETE", "/files/nothing", 404, /There is no/],
    ["POST", "/files/folder", 405, /takes GET, PUT, DELETE/],
    ["GET", "/files/a%2fb", 400, /cannot name a file/],
    ["GET", "/files/a%00b", 400, /cannot name a file/],
    ["GET", "/files/a//b", 400, /no part ""/],
    ["GET", "/elsewhere/x", 404, /There is nothing at/],
  ];
  for (const [method, at, status, words] of expected) {
    const answer = await send(method, at, method === "PUT" ? "x" : undefined);
    assert.equal(answer.status, status, `${method} ${at}: ${answer.text}`);
    assert.match(JSON.parse(answer.text).detail, words);
  }
  // Dots are resolved before the platform sees them, or refused: no way leads up.
  for (const up of ["/files/../../../../x", "/files/%2e%2e/%2e%2e/x", "/files/..%2f..%2fx"]) {
    assert.ok((await send("GET", up)).status >= 400, up);
  }
  assert.equal((await send("DELETE", "/files/folder?recursive=1")).status, 200);
  assert.equal((await send("DELETE", "/files/?recursive=1")).status, 200);
  assert.deepEqual(readdirSync(folder), []);
});

test("Links that a worker put into a volume lead nobody out of it, also when they are put there meanwhile", async (t) => {
  const { platform, folder, send } = await start(t);
  const outside = path.join(platform.dir, "outside");
  mkdirSync(path.join(outside, "sub"), { recursive: true });
  writeFileSync(path.join(outside, "secret"), "secret");
  writeFileSync(path.join(outside, "sub/kept"), "kept");
  symlinkSync(outside, path.join(folder, "out"));
  symlinkSync(path.join(outside, "secret"), path.join(folder, "file"));
  mkdirSync(path.join(folder, "real"));
  symlinkSync("../../../../../outside", path.join(folder, "real/up"));

  for (const at of ["out/secret", "file", "real/up/secret", "out"]) {
    const { status, text } = await send("GET", `/files/${at}`);
    assert.equal(status, 400, at);
    assert.doesNotMatch(text, /^secret/);
  }
  for (const at of ["out/sub", "real/up"]) {
    const { text } = await send("GET", `/entries/${at}`);
    assert.doesNotMatch(text, /kept|secret/, at);
  }
  for (const at of ["out/new", "out/sub/new", "real/up/new", "out/a/b"]) {
    assert.equal((await send("PUT", `/files/${at}`, "evil")).status, 400, at);
  }
  for (const at of ["out/secret", "out/sub?recursive=1", "real/up/secret"]) {
    assert.equal((await send("DELETE", `/files/${at}`)).status, 400, at);
  }
  // A link itself is replaced and removed as what it is.
  assert.equal((await send("PUT", "/files/file", "mine")).status, 200);
  assert.equal((await send("DELETE", "/files/out?recursive=1")).status, 200);
  assert.equal((await send("DELETE", "/files/real?recursive=1")).status, 200);
  assert.equal(readFileSync(path.join(outside, "secret"), "utf8"), "secret");

  // A folder and a link to the outside change places as fast as they can.
  mkdirSync(path.join(folder, "swap"));
  writeFileSync(path.join(folder, "swap/secret"), "inside");
  symlinkSync(outside, path.join(folder, "other"));
  let swapping = true;
  const swaps = (async () => {
    while (swapping) {
      renameSync(path.join(folder, "swap"), path.join(folder, "third"));
      // An upload may make the folder that is missing at this moment.
      while (!moved(path.join(folder, "other"), path.join(folder, "swap"))) {
        rmSync(path.join(folder, "swap"), { recursive: true });
      }
      renameSync(path.join(folder, "third"), path.join(folder, "other"));
      await new Promise(setImmediate);
    }
  })();
  const seen = new Set<number>();
  for (let n = 0; n < 150; n++) {
    const [got, listed] = await Promise.all([send("GET", "/files/swap/secret"), send("GET", "/entries/swap")]);
    seen.add(got.status);
    if (got.status === 200) assert.equal(got.text, "inside");
    assert.doesNotMatch(listed.text, /"sub"/);
    await send("PUT", `/files/swap/new${n}`, "evil");
    await send("DELETE", "/files/swap/sub?recursive=1");
  }
  swapping = false;
  await swaps;
  assert.ok(seen.has(200) && seen.size > 1, `the race was none: ${[...seen]}`);
  assert.deepEqual(readdirSync(outside).sort(), ["secret", "sub"]);
  assert.deepEqual(readdirSync(path.join(outside, "sub")), ["kept"]);
  assert.equal(readFileSync(path.join(outside, "secret"), "utf8"), "secret");
});

test("Callers who are gone before their answer begins leave nothing open", async (t) => {
  const { platform, folder, send } = await start(t);
  assert.equal((await send("PUT", "/files/a/one", "hello")).status, 200);
  for (const at of ["entries/a", "files/a/one", "entries/a/one"]) {
    const head = `GET ${BASE}/${at} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${platform.adminKey}\r\n\r\n`;
    await breakOff(platform.url, head, 200);
    await eventually(() => assert.deepEqual(openBelow(folder), [], at));
  }
});

function openBelow(folder: string): string[] {
  return openFiles(process.pid).filter((file) => file === folder || file.startsWith(`${folder}/`));
}

test("Who may do what with volumes, and one that is used stays", async (t) => {
  const { platform, folder, send } = await start(t);
  const layer = await platform.upload(Buffer.from("s"));
  const build = manifest(layer, { hello: resource("hello", { networkVolumeId: "data:/data,models:/m:ro" }) });
  await deploy(platform, build);
  const key = async (scopes: string, more = "") => {
    const { data } = await platform.ask(
      `mutation { createKey(input: {name: "k${scopes}${more.length}", scopes: ["${scopes}"]${more}}) { secret } }`,
    );
    return data.createKey.secret as string;
  };
  const [reader, invoker] = [await key("read"), await key("invoke")];
  await platform.ask('mutation { createEnvironment(app: "shop", name: "staging") { id } }');
  const elsewhere = await key("deploy", ', app: "shop", environment: "staging"');
  await send("PUT", "/files/x", "x");
  assert.equal((await send("GET", "/entries/", undefined, {}, reader)).status, 200);
  for (const who of [reader, invoker, elsewhere]) {
    assert.equal((await send("GET", "/files/x", undefined, {}, who)).status, 403);
    assert.equal((await send("PUT", "/files/x", "y", {}, who)).status, 403);
    assert.equal((await send("DELETE", "/files/x", undefined, {}, who)).status, 403);
    const { errors } = await platform.ask(`mutation { createVolume(${PLACE}, name: "new") { name } }`, {}, who);
    assert.equal(errors?.[0]?.extensions.code, "FORBIDDEN");
  }
  assert.equal((await send("GET", "/entries/", undefined, {}, elsewhere)).status, 403);

  const listed = await platform.ask(`{ volumes(${PLACE}) { name cache sizeBytes limitBytes endpoints } }`, {}, reader);
  assert.deepEqual(listed.data.volumes, [
    { name: "models", cache: false, sizeBytes: null, limitBytes: null, endpoints: ["hello"] },
  ]);
  const remove = () => platform.ask(`mutation { deleteVolume(${PLACE}, name: "models") }`);
  const { errors } = await remove();
  assert.equal(errors?.[0]?.extensions.code, "CONFLICT");
  assert.match(errors[0]!.message, /used by hello/);
  assert.ok(existsSync(path.join(folder, "x")));

  await deploy(platform, manifest(layer, { hello: resource("hello", {}) }));
  assert.equal((await remove()).errors, undefined);
  assert.ok(!existsSync(folder));
  assert.deepEqual(readdirSync(path.join(path.dirname(folder), ".uploads")), []);
  assert.equal((await remove()).errors?.[0]?.extensions.code, "NOT_FOUND");
  assert.equal((await send("GET", "/entries/")).status, 404);
  const again = await platform.ask(`mutation { createVolume(${PLACE}, name: "Not A Name") { name } }`);
  assert.equal(again.errors?.[0]?.extensions.code, "INVALID_NAME");
});

test("A full disk refuses a file with 507 and keeps nothing of it", {
  skip: process.getuid?.() === 0 ? false : "needs root to mount a small disk",
}, async (t) => {
  const { folder, send, uploads } = await start(t);
  const environment = path.dirname(folder);
  rmSync(environment, { recursive: true });
  mkdirSync(environment);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "svc-test", environment]);
  try {
    mkdirSync(folder);
    const { status, text } = await send("PUT", "/files/large", "x".repeat(3_000_000));
    assert.equal(status, 507, text);
    assert.match(text, /STORAGE_FULL/);
    assert.deepEqual([readdirSync(folder), readdirSync(uploads)], [[], []]);
    assert.equal((await send("PUT", "/files/small", "x")).status, 200);
  } finally {
    execFileSync("umount", ["-l", environment]);
  }
});

function moved(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}
