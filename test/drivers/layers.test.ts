import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import tar from "tar-stream";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { LayerFolder } from "../../src/drivers/layers.ts";
import { unpackLayer } from "../../src/drivers/unpack-layer.ts";

interface Entry {
  readonly name: string;
  readonly type?: "file" | "symlink" | "link" | "directory" | "character-device";
  readonly linkname?: string;
  readonly text?: string;
}

/** A layer of these entries in a real store, and the folder it is unpacked below. */
async function layer(
  t: TestContext,
  entries: readonly Entry[],
): Promise<{ folder: LayerFolder; digest: string; dir: string }> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-layers-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const pack = tar.pack();
  for (const { name, type = "file", linkname, text = "" } of entries) pack.entry({ name, type, linkname }, text);
  pack.finalize();
  const bytes = gzipSync(await buffer(pack));
  const digest = createHash("sha256").update(bytes).digest("hex");
  const artifacts = await openDiskArtifactStore(path.join(dir, "artifacts"));
  await artifacts.put(digest, Readable.from([bytes]), 1_000_000);
  return { folder: new LayerFolder(path.join(dir, "layers"), artifacts), digest, dir };
}

test("A layer is unpacked once, with its folders and the links that stay inside", async (t) => {
  const { folder, digest } = await layer(t, [
    { name: "src/a.py", text: "A = 1\n" },
    { name: "src/b.py", type: "symlink", linkname: "a.py" },
  ]);
  const [first, second] = await Promise.all([folder.ensure(digest), folder.ensure(digest)]);
  assert.equal(first, second);
  assert.equal(readFileSync(path.join(first, "src/a.py"), "utf8"), "A = 1\n");
  assert.equal(readlinkSync(path.join(first, "src/b.py")), "a.py");
});

test("layers that were unpacked before the machine was booted again are unpacked anew, others stay", async (t) => {
  const made = await layer(t, [{ name: "src/a.py", text: "A = 1\n" }]);
  const { digest, dir } = made;
  const layers = path.join(dir, "layers");
  const bootId = path.join(dir, "boot_id");
  const unpacked = path.join(layers, digest, "src/a.py");
  const artifacts = await openDiskArtifactStore(path.join(dir, "artifacts"));
  const start = async (boot: string | undefined) => {
    rmSync(bootId, { force: true });
    if (boot !== undefined) writeFileSync(bootId, `${boot}\n`);
    const folder = new LayerFolder(layers, artifacts, bootId);
    await folder.open();
    return folder;
  };
  const content = () => (existsSync(unpacked) ? readFileSync(unpacked, "utf8") : "none");

  await made.folder.ensure(digest);
  await start("one");
  assert.equal(content(), "A = 1\n", "an earlier version's layers, whose workers may run on");
  writeFileSync(unpacked, "");
  const again = await start("one");
  await again.removeUnused([], Date.now() - 100_000);
  await again.ensure(digest);
  await start(undefined);
  assert.equal(content(), "", "nothing is known of another boot");

  const after = await start("two");
  assert.equal(content(), "none");
  await after.ensure(digest);
  assert.equal(content(), "A = 1\n");
  const past = new Date(0);
  utimesSync(path.join(layers, ".boot"), past, past);
  await after.removeUnused([], Date.now() - 100_000);
  await start("two");
  assert.equal(content(), "A = 1\n");
  // What was moved away goes in the background.
  while (readdirSync(layers).length > 2) await setImmediate();
  assert.deepEqual(readdirSync(layers).sort(), [".boot", digest]);
});

const HOSTILE: readonly { title: string; entries: readonly Entry[] }[] = [
  { title: "a path that climbs out", entries: [{ name: "../outside.txt", text: "x" }] },
  {
    title: "a link that points out",
    entries: [{ name: "src/link", type: "symlink", linkname: "../../../etc/passwd" }],
  },
  { title: "an absolute link", entries: [{ name: "src/link", type: "symlink", linkname: "/etc/passwd" }] },
  { title: "a hard link", entries: [{ name: "src/link", type: "link", linkname: "src/a.py" }] },
  {
    title: "a link through a link",
    entries: [
      { name: "a/b/c/x", text: "" },
      { name: "deep", type: "symlink", linkname: "a/b/c" },
      { name: "out", type: "symlink", linkname: "deep/../../../../outside.txt" },
    ],
  },
  {
    title: "links that climb out one after the other",
    entries: [
      { name: "src/one/two/x", text: "" },
      { name: "here", type: "symlink", linkname: "src/one/two" },
      { name: "src/up", type: "symlink", linkname: "../here/../../.." },
    ],
  },
  {
    title: "a file behind a link",
    entries: [
      { name: "src/link", type: "symlink", linkname: ".." },
      { name: "src/link/outside.txt", text: "x" },
    ],
  },
  {
    title: "a file in place of a link",
    entries: [
      { name: "src/link", type: "symlink", linkname: "../elsewhere" },
      { name: "src/link", text: "x" },
    ],
  },
  {
    title: "a folder in place of a link",
    entries: [
      { name: "src/link", type: "symlink", linkname: "../elsewhere" },
      { name: "src/link", type: "directory" },
    ],
  },
  { title: "a file twice", entries: [{ name: "./src//a.py", text: "other" }] },
  { title: "a link to nothing", entries: [{ name: "src/link", type: "symlink", linkname: "" }] },
  { title: "a device", entries: [{ name: "src/dev", type: "character-device" }] },
];

for (const { title, entries } of HOSTILE) {
  test(`A layer with ${title} is refused and leaves nothing behind`, async (t) => {
    const { folder, digest, dir } = await layer(t, [{ name: "src/a.py", text: "" }, ...entries]);
    await assert.rejects(folder.ensure(digest), { code: "LAYER_CORRUPT" });
    assert.deepEqual(readdirSync(path.join(dir, "layers")), []);
    assert.ok(!existsSync(path.join(dir, "outside.txt")));
  });
}

for (const [title, size] of [
  ["an entry that is longer than the archive", "77777700006 "],
  ["an entry whose size is no number", "\u00e10000000006 "],
] as const) {
  test(`A layer with ${title} is refused, not waited for`, { timeout: 300_000 }, async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), "svc-layers-"));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const pack = tar.pack();
    pack.entry({ name: "src/deep/a.py" }, "A = 1\n");
    pack.finalize();
    const bytes = await buffer(pack);
    bytes.write(size, 124, "latin1");
    bytes.fill(0x20, 148, 156);
    const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0);
    bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    const bounds = { bytesMax: 1_000_000, entriesMax: 100 };
    await assert.rejects(unpackLayer(Readable.from([gzipSync(bytes)]), dir, bounds));
  });
}
