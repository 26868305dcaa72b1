import assert from "node:assert/strict";
import { test } from "node:test";
import { findPostgres } from "../postgres.ts";
import { failovers } from "./failovers.ts";

const found = await findPostgres();

test("no accepted job is lost and none finishes twice when the primary dies and its synchronous standby is promoted", {
  skip: "missing" in found && found.missing,
}, async (t) => {
  const { bin } = found as { bin: string };
  const times = { queued: 200, loadMs: 500, recoverMaxMs: 60_000 };
  const lines: string[] = [];
  const report = await failovers({ bin, rounds: 2, ...times, say: (line) => lines.push(line) });
  for (const line of lines) t.diagnostic(line);
  assert.ok(report.accepted > 0);
  assert.deepEqual(report.broken, { lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] }, lines.join("\n"));
});
