/** What the tests of this folder start themselves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { endAll, endsWith } from "../ends.ts";
import { ApiServer } from "./api-server.ts";
import { findKubernetes } from "./find.ts";

const found = findKubernetes();
const skip = "missing" in found ? found.missing : false;

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
