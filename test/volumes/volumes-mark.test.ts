import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { markVolumes, rememberedMark, VolumesMark } from "../../src/volumes/volumes-mark.ts";

function places(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-mark-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const [folder, record] = ["volumes", "volumes-folder.json"].map((name) => path.join(dir, name)) as [string, string];
  return {
    folder,
    record,
    file: path.join(folder, ".svc-platform"),
    open: () => new VolumesMark(folder, rememberedMark(folder, record)),
  };
}

test("The folder of the first time is marked; without its mark it is another one, until that is back", async (t) => {
  const { folder, file, open } = places(t);
  const first = open();
  await first.check();
  const id = readFileSync(file, "utf8").trim();
  assert.match(id, /^[0-9a-f-]{36}$/);

  renameSync(folder, `${folder}-away`);
  mkdirSync(folder);
  const isAnother = {
    code: "VOLUMES_AWAY",
    message: /is not the one that it was: it lacks \S+, as the folder below a mount/,
  };
  for (const mark of [first, open()]) await assert.rejects(mark.check(), isAnother);
  assert.deepEqual(readdirSync(folder), [], "nothing was made there");

  rmSync(folder, { recursive: true });
  renameSync(`${folder}-away`, folder);
  for (const mark of [first, open()]) await mark.check();
});

test("Platforms that share the folder agree on its mark, however close together they make it", async (t) => {
  const { folder, file } = places(t);
  const marks = await Promise.all(Array.from({ length: 20 }, () => markVolumes(folder)));
  assert.equal(new Set(marks).size, 1);
  assert.equal(readFileSync(file, "utf8"), `${marks[0]}\n`);
  assert.deepEqual(readdirSync(folder), [".svc-platform"]);
});

test("A folder of another platform is another one; the command of the help makes it this platform's", async (t) => {
  const { file, open } = places(t);
  await open().check();
  const id = readFileSync(file, "utf8").trim();
  writeFileSync(file, "another\n");
  const failed = await open()
    .check()
    .then(
      () => undefined,
      (error) => error,
    );
  assert.match(failed.message, /\.svc-platform is another one's\./);
  const [, given, where] = /echo (\S+) > (\S+) makes/.exec(failed.help) ?? [];
  assert.deepEqual([given, where], [id, file]);
  writeFileSync(where!, `${given}\n`);
  await open().check();
});

test("One that holds a mark already keeps it; another folder, and a record that is damaged, begin anew", async (t) => {
  const { folder, record, file, open } = places(t);
  mkdirSync(folder);
  writeFileSync(file, "from-before\n");
  await open().check();
  assert.equal(readFileSync(file, "utf8"), "from-before\n");
  writeFileSync(record, "");
  await open().check();
  assert.equal(JSON.parse(readFileSync(record, "utf8")).id, "from-before");
  const elsewhere = `${folder}-other`;
  const other = new VolumesMark(elsewhere, rememberedMark(elsewhere, record));
  await other.check();
  assert.equal(JSON.parse(readFileSync(record, "utf8")).folder, elsewhere);
  assert.deepEqual(readdirSync(elsewhere), [".svc-platform"]);
});
