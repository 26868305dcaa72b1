import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, test } from "node:test";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { gzipMembers } from "../../src/lib/gzip-members.ts";
import { packTar, type TarEntry } from "../../src/lib/tar-pack.ts";
import { type PythonData, pythonLiteral } from "../../src/python/literal.ts";

async function bytesOf(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What tar sees in the bytes: name → content or link target. */
function unpacked(bytes: Uint8Array): Record<string, string> {
  const script = `
import io, json, sys, tarfile
t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()), mode="r:*")
print(json.dumps({m.name: m.linkname if m.issym() else t.extractfile(m).read().hex() for m in t.getmembers()}))`;
  return JSON.parse(execFileSync("python3", ["-c", script], { input: bytes, encoding: "utf8" }));
}

describe("a packed tar", () => {
  const entries: TarEntry[] = [
    { name: "a.txt", content: Buffer.from("hello") },
    { name: `${"long/".repeat(40)}name.txt`, content: Buffer.from("deep") },
    { name: "ümläut-😀.txt", content: new Uint8Array(0) },
    { name: "link", linkTo: "a.txt" },
    { name: "run.sh", executable: true, content: Buffer.alloc(3000, 7) },
  ];

  test("keeps names of any length and script, contents, links and modes", async () => {
    const bytes = await bytesOf(packTar(entries));
    assert.equal(bytes.length % 512, 0);
    const members = unpacked(bytes);
    assert.equal(members["a.txt"], Buffer.from("hello").toString("hex"));
    assert.equal(members[`${"long/".repeat(40)}name.txt`], Buffer.from("deep").toString("hex"));
    assert.equal(members["ümläut-😀.txt"], "");
    assert.equal(members.link, "a.txt");
    assert.deepEqual(await bytesOf(packTar(entries)), bytes);
  });

  test("joined with another is one archive", async () => {
    const second = await bytesOf(packTar([{ name: "b.txt", content: Buffer.from("more") }]));
    const members = unpacked(Buffer.concat([await bytesOf(packTar(entries)), second, Buffer.alloc(1024)]));
    assert.deepEqual(Object.keys(members).slice(-2), ["run.sh", "b.txt"]);
  });

  test("streams a file, and fails when the file is shorter than announced", async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), "svc-tar-"));
    t.after(() => rmSync(dir, { recursive: true }));
    const file = path.join(dir, "f");
    writeFileSync(file, Buffer.alloc(200_000, 3));
    const members = unpacked(await bytesOf(packTar([{ name: "f", file, size: 200_000 }])));
    assert.equal(members.f!.length, 400_000);
    await assert.rejects(bytesOf(packTar([{ name: "f", file, size: 300_000 }])), /[Ss]ize mismatch/);
    await assert.rejects(bytesOf(packTar([{ name: "f", file: path.join(dir, "absent"), size: 3 }])), /ENOENT/);
  });
});

test("gzip members decompress to the input, however it was cut, and are the same each time", async () => {
  const bytes = Buffer.alloc(10_000_000);
  for (let i = 0; i < bytes.length; i++) bytes[i] = (i * i) % 251;
  const cut = async function* (size: number) {
    for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size);
  };
  const once = await bytesOf(gzipMembers(cut(65_536), 1));
  assert.deepEqual(await bytesOf(gzipMembers(cut(777_777), 1)), once);
  assert.ok(gunzipSync(once).equals(bytes));
});

test("a Python literal is read by Python as the same data", () => {
  const samples = fc.sample(fc.jsonValue({ noUnicodeString: false }), { numRuns: 60, seed: 7 }) as PythonData[];
  samples.push({
    'quo"te': ["\n\\", "é😀\u007f", null, true, -1.5],
    long: Array.from({ length: 40 }, (_, i) => `item ${i}`),
  });
  const source = samples.map((data) => pythonLiteral(data)).join(",\n");
  const script = "import ast, json, sys; print(json.dumps(ast.literal_eval(sys.stdin.read())))";
  const back = JSON.parse(execFileSync("python3", ["-c", script], { input: `[${source}]`, encoding: "utf8" }));
  assert.deepEqual(back, JSON.parse(JSON.stringify(samples)));
});
