import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { closeSync, fstatSync, openSync, readdirSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { listProjectFiles } from "../../src/build/project-files.ts";
import {
  type ProvisionedEndpoint,
  readResources,
  resourcesFile,
  writeResources,
} from "../../src/dev/resources-file.ts";
import { writePickle } from "../../src/lib/pickle.ts";
import { temporaryFolder, writeFiles } from "../build/project.ts";

const ENDPOINT: ProvisionedEndpoint = {
  id: "ep_1",
  url: "http://127.0.0.1:7878/v2/ep_1",
  kind: "queue",
  app: "shop",
  environment: "live-anna-12ab",
  configurationHash: "ab".repeat(32),
  platformUrl: "http://127.0.0.1:7878",
  deployedAt: 1_700_000_000_000,
};

describe(".platform/resources.pkl", () => {
  test("keeps the endpoints by name, and Python's pickle.load reads it", async (t) => {
    const dir = temporaryFolder(t);
    assert.deepEqual(await readResources(dir), { endpoints: {}, problem: undefined });
    const endpoints = { "live-b": ENDPOINT, "live-a": { ...ENDPOINT, kind: "load-balanced" as const } };
    await writeResources(dir, endpoints);
    assert.deepEqual(await readResources(dir), { endpoints, problem: undefined });
    const script = "import json, pickle, sys; print(json.dumps(pickle.load(open(sys.argv[1], 'rb'))))";
    const read = execFileSync("python3", ["-c", script, resourcesFile(dir)], { encoding: "utf8" });
    assert.deepEqual(JSON.parse(read), { version: 1, endpoints });
    assert.deepEqual(Object.keys(JSON.parse(read).endpoints), ["live-a", "live-b"]);
  });

  test("is its owner's alone, and is replaced whole", async (t) => {
    const dir = temporaryFolder(t);
    await writeResources(dir, { "live-a": ENDPOINT });
    assert.equal(statSync(resourcesFile(dir)).mode & 0o777, 0o600);
    const open = openSync(resourcesFile(dir), "r"); // As long as it is, no other file has its number.
    t.after(() => closeSync(open));
    await Promise.all(Array.from({ length: 20 }, (_, i) => writeResources(dir, { [`live-${i}`]: ENDPOINT })));
    assert.notEqual(statSync(resourcesFile(dir)).ino, fstatSync(open).ino);
    assert.equal(Object.keys((await readResources(dir)).endpoints).length, 1);
    assert.deepEqual(readdirSync(path.dirname(resourcesFile(dir))).sort(), [".gitignore", "resources.pkl"]);
  });

  test("never reaches a build", async (t) => {
    const dir = temporaryFolder(t);
    writeFiles(dir, { "a.py": "", ".svcignore": "!.platform/\n" });
    await writeResources(dir, { "live-a": ENDPOINT });
    assert.deepEqual(
      listProjectFiles(dir).files.map((file) => file.path),
      ["a.py"],
    );
  });

  test("that cannot be used says why, is not executed, and is made anew", async (t) => {
    const dir = temporaryFolder(t);
    const evil = `import os, pickle, sys
class Evil:
    def __reduce__(self): return os.mkdir, (sys.argv[2],)
pickle.dump({"version": 1, "endpoints": Evil()}, open(sys.argv[1], "wb"))`;
    await writeResources(dir, {});
    const mark = path.join(dir, "ran");
    execFileSync("python3", ["-c", evil, resourcesFile(dir), mark]);
    const { endpoints, problem } = await readResources(dir);
    assert.deepEqual(endpoints, {});
    assert.match(
      problem!,
      /^\.platform\/resources\.pkl cannot be used: it holds more than plain data .* It is made anew\.$/,
    );
    assert.ok(!readdirSync(dir).includes("ran"));

    for (const [content, why] of [
      [Buffer.from("garbage"), /cannot be used: it /],
      [Buffer.alloc(0), /it is cut off/],
      [Buffer.alloc(2_000_000), /it is larger than 1048576 bytes/],
      [writePickle({ version: 2, endpoints: {} }), /it has another shape/],
      [writePickle([]), /it has another shape/],
      [
        writePickle({ version: 1, endpoints: { "live-a": { id: "x" } } }),
        /what it says about "live-a" is not complete/,
      ],
    ] as const) {
      writeFileSync(resourcesFile(dir), content);
      assert.match((await readResources(dir)).problem!, why);
    }
    await writeResources(dir, { "live-a": ENDPOINT });
    assert.equal((await readResources(dir)).problem, undefined);
  });
});
