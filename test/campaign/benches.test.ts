/** Benches in short: what they measure has to be right before it is quick. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodies } from "../../bench/bodies.ts";
import { many } from "../../bench/many.ts";
import { streams } from "../../bench/streams.ts";

const WAYS = ["ours, route", "ours, /stream", "ours, OpenAI"];

test("streams that are read at once all go on giving chunks", { timeout: 300_000 }, async () => {
  const { figures } = await streams({ rounds: 1, counts: [20], seconds: 1 });
  for (const way of WAYS) assert.ok(figures[`${way} @20 chunks/s`]! > 0, way);
});

test("large bodies that are sent at once all come back whole", { timeout: 300_000 }, async () => {
  const { figures } = await bodies({ rounds: 1, bytes: 1_000_000, atOnce: [4], requests: 8 });
  for (const way of ["ours, route", "ours, streamed", "ours, runsync"]) assert.ok(figures[`${way} @4 MB/s`]! > 0, way);
});

test("a platform with many endpoints starts and answers", { timeout: 300_000 }, async () => {
  const counts = { endpoints: 20, connections: 0, minuteEndpoints: 0, deploys: 0 };
  const { figures } = await many({ rounds: 1, part: "start", ...counts });
  assert.ok(figures["20 endpoints: resident after the start MB"]! > 0);
});
