/** The socket where the workers' container of a Pod asks for its launcher's settings: whoever may come, and whatever may be said there. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { POD_FACTS_MAX_BYTES } from "../../src/domain/limits.ts";
import { BootSocket } from "../../src/drivers/pod/boot-socket.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";

const SECRET = "the-launchers-secret";
const GOOD = { version: "3.11", python: "/usr/bin/python3", paths: [], packages: {} };
const answer = (facts: object, more: object = {}) =>
  `${JSON.stringify({ code: 0, stdout: JSON.stringify(facts), stderr: "", env: { MODE: "own", HOME: "/" }, ...more })}\n`;

async function open(t: TestContext) {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-boot-"));
  const file = path.join(folder, "boot.sock");
  const state = { isWanted: true, begun: [] as object[], told: [] as string[] };
  const socket = new BootSocket({
    image: "of this Pod",
    isWanted: () => state.isWanted,
    begins: async (facts) => {
      state.begun.push(facts);
      return { token: SECRET };
    },
    told: (line) => state.told.push(line),
  });
  await socket.listen(file);
  t.after(() => {
    socket.close();
    rmSync(folder, { recursive: true });
  });
  /** Says it once it was asked. Resolves all that came. */
  const say = async (text: string) => {
    const link = connect(file);
    let heard = "";
    link.setEncoding("utf8").on("data", (chunk: string) => {
      if (heard === "") link.write(text);
      heard += chunk;
    });
    link.on("error", () => {});
    await once(link, "close");
    return heard;
  };
  return { ...state, state, say, file };
}

test("A container gets its launcher's settings for what its image has; what the image sets for its programs is kept", async (t) => {
  const { say, begun } = await open(t);
  assert.match(await say(answer(GOOD)), new RegExp(SECRET));
  assert.deepEqual(begun, [
    { id: "", pythonVersion: "3.11", python: "/usr/bin/python3", packagePaths: [], packages: {}, env: { MODE: "own" } },
  ]);
});

test("While a launcher is there nobody gets settings, nor is anybody asked", async (t) => {
  const { say, state } = await open(t);
  state.isWanted = false;
  assert.equal(await say(answer(GOOD)), "");
});

test("One that comes to be there meanwhile keeps the settings from another", async (t) => {
  const { state, file } = await open(t);
  const link = connect(file);
  await once(link, "data");
  state.isWanted = false;
  link.write(answer(GOOD));
  const rest: Buffer[] = [];
  link.on("data", (chunk: Buffer) => rest.push(chunk));
  link.on("error", () => {});
  await once(link, "close");
  assert.equal(Buffer.concat(rest).toString(), "");
});

test("What is no answer, is endless, or is of an image that cannot be used gets words, and no secret", async (t) => {
  const { say, state } = await open(t);
  const nones: [string, RegExp][] = [
    ["not JSON\n", /"problem":"its answer is wrong"/],
    ['{"code":0}\n', /"problem":"its answer is wrong"/],
    [answer({ ...GOOD, version: "3.6" }), /The image of this Pod has Python 3.6; workers need 3\.10/],
    [answer({ ...GOOD, python: 5 }), /has no python3 that runs/],
    [
      answer(GOOD, { code: 1, stdout: "", stderr: "No module named json" }),
      /has no python3 that runs: No module named json/,
    ],
    ["x".repeat(POD_FACTS_MAX_BYTES + 1), /^\{"probe"/],
  ];
  for (const [text, wanted] of nones) {
    // The one before it may not be gone yet.
    const heard = await eventually(async () => {
      const all = await say(text);
      assert.notEqual(all, "");
      return all;
    });
    assert.match(heard, wanted, text.slice(0, 80));
    assert.doesNotMatch(heard, new RegExp(SECRET));
  }
  assert.equal(state.begun.length, 0);
  await eventually(async () =>
    assert.match(await say(answer(GOOD)), new RegExp(SECRET), "the next one is asked as ever"),
  );
});

test("The program of the container says in words why its image cannot be used", async (t) => {
  const { file } = await open(t);
  const root = path.dirname(file);
  const program = path.resolve(import.meta.dirname, "../../python/src/svc/_runtime/in_pod.py");
  const code = `
import runpy, sys
sys.executable = "/bin/false"
named = runpy.run_path(${JSON.stringify(program)})
named["main"].__globals__["_BOOT"] = ${JSON.stringify(path.join(root, "boot.sock"))}
named["main"]()
`;
  const done = await runProcess("python3", ["-I", "-S", "-c", code]);
  assert.equal(done.code, 1);
  assert.match(done.stderr, /The image of this Pod has no python3 that runs: exit code 1\. Workers need python3/);
});
