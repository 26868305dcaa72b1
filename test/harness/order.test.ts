import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { modulesOf } from "./modules-of.ts";
import { longestFirst } from "./order.ts";

const TESTS = path.resolve(import.meta.dirname, "..");
const named = (name: string) => path.join(TESTS, name);

test("What nobody has timed yet is ordered by what it says, and by where it is", () => {
  const files = ["lib/frames.test.ts", "gateway/wire.test.ts", "e2e/crash.test.ts", "docs/site.test.ts"].map(named);
  const ordered = longestFirst(
    files.map((file) => ({ file })),
    () => "",
  );
  assert.deepEqual(
    ordered.map(({ file }) => file),
    files.toReversed(),
  );
});

test("A file needs what it imports by way of others, but not what a run with servers starts", () => {
  const needs = (name: string) => modulesOf(named(name), /\/servers\.ts$/);
  assert.ok(needs("e2e/host-versions.test.ts").has("package.ts"));
  assert.ok(needs("queue/postgres-queue.test.ts").has("postgres.ts"));
  assert.deepEqual(
    ["servers.ts", "postgres.ts", "s3.ts", "package.ts"].filter((name) => needs("e2e/crash.test.ts").has(name)),
    ["servers.ts"],
  );
});
