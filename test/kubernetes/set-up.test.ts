/** What the tests of this folder start themselves. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { endAll, endsWith } from "../ends.ts";
import { eventually } from "../eventually.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";
import { findInstallation, Installation } from "./installation.ts";

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;
const isWanted = process.env.SVC_TEST_NODES === "1";
// Before the first test: what is made once takes minutes, and after the last test that is known a file has to end.
const installation = isWanted ? await findInstallation() : { missing: "make test-cluster runs it" };

test("An API server that ends while it starts is told at once, with its last lines", { skip }, async () => {
  assert.ok("program" in found);
  const flags = ["--no-such-flag"];
  await assert.rejects(ApiServer.start(found.program, { flags }), /kube-apiserver has ended:.*unknown flag/s);
});

test("What is started is ended with its process, the newest first; what cannot be ended keeps nothing else", async (t) => {
  const ended: string[] = [];
  const told = t.mock.method(console, "error", () => {});
  const stop = (name: string) => async () => void ended.push(name);
  endsWith(stop("first"));
  const over = endsWith(stop("over"));
  endsWith(() => Promise.reject(new Error("it hangs")));
  endsWith(stop("last"));
  over();
  await endAll();
  assert.deepEqual([ended, told.mock.calls.map(({ arguments: said }) => said)], [["last", "first"], [["it hangs"]]]);
});

function processArgs(): string[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8");
    } catch {
      return ""; // It has ended.
    }
  });
}

test("An installation that is told to stop while it starts leaves nothing, however far it was", {
  skip: "missing" in installation && installation.missing,
}, async (t) => {
  assert.ok(!("missing" in installation));
  // Another file's nodes may be there: only what lies in this one's folder is its own.
  const own = () => readdirSync(tmpdir()).filter((name) => name.startsWith("svck-"));
  const running = () => processArgs().filter((args) => args.includes(path.join(tmpdir(), "svck-")));
  for (const wait of [
    async () => {},
    async (on: Installation) => {
      const isFar = () =>
        assert.ok(
          own().some((name) => existsSync(path.join(tmpdir(), name, "n1"))),
          on.folder,
        );
      await eventually(isFar, 1_200_000);
    },
  ]) {
    const on = new Installation(installation);
    const starting = on.start().then(
      () => "up",
      () => "ended",
    );
    await wait(on);
    await on.stop();
    assert.equal(await starting, "ended");
    assert.deepEqual([existsSync(on.folder), own(), running()], [false, [], []]);
    t.diagnostic("nothing is left");
  }
});
