import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { allCells, type Cell, killMatrix } from "./kill-matrix.ts";
import { seededRandom } from "./seeded-random.ts";

const ROUNDS = 4;

/** What a worker does without descriptors is its function's own affair; `npm run bench -- chaos` looks at that too. */
function holds({ fault, component }: Cell): boolean {
  return fault !== "out of descriptors" || component === "platform";
}

test("callers lose nothing and are answered, whatever part is killed, stopped or cut off under whatever load", {
  timeout: 300_000,
}, async () => {
  const seed = randomInt(1_000_000);
  const random = seededRandom(seed);
  const cells = allCells().filter(holds);
  const chosen = Array.from({ length: ROUNDS }, () => cells[Math.floor(random() * cells.length)]!);
  const lines = [`seed ${seed}`];
  const say = (line: string) => lines.push(line);
  const report = await killMatrix({ seed, cells: chosen, queued: 200, faultMs: 1_000, recoverMaxMs: 30_000, say });
  const none = { lost: [], doubled: [], stuck: [], unanswered: [], wrong: [] };
  assert.deepEqual(report.broken, none, lines.join("\n"));
});
