import assert from "node:assert/strict";
import { test } from "node:test";
import { LoadAverage } from "../../src/autoscaler/load-average.ts";

/** The average after each of `loads`, one a second. */
function follow(loads: readonly number[], average = new LoadAverage()): number[] {
  return loads.map((load, second) => average.observe(load, second * 1_000));
}
const seconds = (count: number, load: number) => Array.from({ length: count }, () => load);

test("A rise is followed in seconds", () => {
  const [now, , , after] = follow(seconds(4, 10));
  assert.equal(now, 0);
  assert.equal(after, 5);
});

test("A lull of a moment is waited out, and so is what may be chance", () => {
  const before = follow(seconds(120, 4)).at(-1)!;
  const lull = follow([...seconds(120, 4), ...seconds(2, 1)]).at(-1)!;
  assert.ok(before > 3.9 && lull > 3.8, `${before} → ${lull}`);
});

test("A fall too deep for chance is followed in seconds", () => {
  const after = follow([...seconds(120, 10), ...seconds(6, 0)]).at(-1)!;
  assert.ok(after < 6, `10 → ${after} in 5 s; the long average alone would say 8.4`);
});
