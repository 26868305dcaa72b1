import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { NetworkFolder } from "../../src/lib/network-folder.ts";

/** A disk whose answers come when the test says so, in the order of the questions. */
function openFolder(patienceMs: number) {
  const asked: PromiseWithResolvers<string>[] = [];
  const told: boolean[] = [];
  const refusal = () => new Error("away");
  const options = { patienceMs, refusal, told: (problem?: Error) => void told.push(problem !== undefined) };
  const folder = new NetworkFolder("/nowhere", options);
  const ask = () => {
    asked.push(Promise.withResolvers());
    return asked.at(-1)!.promise;
  };
  return { folder, asked, told, ask };
}

test("Two are at the disk at a time, others wait in line in their order, and each gets its own answer", async () => {
  const { folder, asked, told, ask } = openFolder(60_000);
  const answers = [folder.run(ask), folder.run(ask), folder.run(ask)];
  const failed = folder.run(ask);
  const isRefused = assert.rejects(failed, /no such file/);
  assert.equal(asked.length, 2);
  asked[1]!.resolve("second");
  assert.equal(await answers[1], "second");
  for (const [index, name] of [
    [0, "first"],
    [2, "third"],
  ] as const) {
    asked[index]!.resolve(name);
    assert.equal(await answers[index], name);
  }
  asked[3]!.reject(new Error("no such file"));
  await isRefused;
  assert.deepEqual(told, []);
  await folder.close();
  assert.equal(folder.problem, undefined);
});

test("A disk that does not answer refuses all, at once from then on; what comes late is given back, and it is well again", async () => {
  const { folder, asked, told, ask } = openFolder(20);
  const late: string[] = [];
  const first = folder.run(ask, { late: (value) => void late.push(value) });
  const others = [folder.run(ask), folder.run(ask)];
  for (const one of [first, ...others]) await assert.rejects(one, /away/);
  assert.deepEqual([folder.problem?.message, told], ["away", [true]]);
  await assert.rejects(folder.run(ask), /away/);
  assert.equal(asked.length, 2, "nobody else has gone to the disk");
  let closed = false;
  folder.later(async () => {
    closed = true;
  });
  await folder.close();
  assert.equal(closed, false);
  asked[0]!.resolve("a descriptor");
  asked[1]!.reject(new Error("too late to be heard"));
  await folder.close();
  assert.deepEqual([late, closed, folder.problem, told], [["a descriptor"], true, undefined, [true, false]]);
  const again = folder.run(async () => "well");
  assert.equal(await again, "well");
});

test("A folder that is another one does nothing for anybody but who has a file open already, and is told once each way", async () => {
  const told: (string | undefined)[] = [];
  let isOther = false;
  const folder = new NetworkFolder("/nowhere", {
    patienceMs: 60_000,
    refusal: () => new Error("away"),
    check: async () => {
      if (isOther) throw new Error("another one");
    },
    told: (problem) => void told.push(problem?.message),
  });
  let done = 0;
  const work = async () => {
    done += 1;
  };
  await folder.run(work);
  isOther = true;
  for (let i = 0; i < 2; i += 1) await assert.rejects(folder.run(work), /another one/);
  assert.deepEqual([done, folder.problem?.message], [1, "another one"]);
  await folder.run(work, { isOpen: true });
  isOther = false;
  await folder.run(work);
  assert.deepEqual([done, folder.problem, told], [3, undefined, ["another one", undefined]]);
});

test("A process that stood still itself gives the disk its time once more before it says that there was no answer", async () => {
  const { folder, told } = openFolder(500);
  const answer = folder.run(async () => {
    await stat(tmpdir());
    return stat(tmpdir());
  });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);
  assert.ok((await answer).isDirectory());
  assert.deepEqual(told, []);
});

test("What is not there, or is no folder, holds nothing; a folder is listed with what its entries are", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-network-folder-"));
  t.after(() => rmSync(dir, { recursive: true }));
  mkdirSync(path.join(dir, "folder"));
  writeFileSync(path.join(dir, "file"), "");
  const folder = new NetworkFolder(dir, { patienceMs: 60_000, refusal: () => new Error("away") });
  const found = await folder.list(dir);
  assert.deepEqual(found.map((entry) => [entry.name, entry.isDirectory()]).sort(), [
    ["file", false],
    ["folder", true],
  ]);
  assert.deepEqual(await folder.list(path.join(dir, "none")), []);
  assert.deepEqual(await folder.list(path.join(dir, "file")), []);
});

test("Who closes it while somebody is at the disk waits for its answer, for a while: then the end of the process need not", async () => {
  const { folder, asked, ask } = openFolder(20);
  folder.later(ask);
  await folder.close();
  assert.equal(folder.problem?.message, "away");
  asked[0]!.resolve("an answer");
  await folder.close();
  assert.equal(folder.problem, undefined);
});
