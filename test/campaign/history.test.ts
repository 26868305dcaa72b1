import assert from "node:assert/strict";
import { test } from "node:test";
import { type JobHistory, judge, type Seen } from "./history.ts";

const seen = (...states: string[]): Seen[] =>
  states.map((text, atMs) => ({ atMs, state: text.split(" ")[0]!, result: text.split(" ")[1] ?? "" }));
const job = (states: Seen[], more: Partial<JobHistory> = {}): JobHistory => ({
  name: "job 1",
  unanswered: 0,
  wrong: [],
  acceptedAtMs: 0,
  keptUntilMs: 1_000,
  seen: states,
  ...more,
});
const kinds = (history: JobHistory) =>
  Object.entries(judge([history])).flatMap(([kind, found]) => (Array.isArray(found) && found.length > 0 ? [kind] : []));

test("a job that is accepted, runs and keeps its one result breaks no promise", () => {
  assert.deepEqual(
    kinds(job(seen("IN_QUEUE", "IN_PROGRESS", "IN_QUEUE", "IN_PROGRESS", "COMPLETED 1", "COMPLETED 1"))),
    [],
  );
});

test("an accepted job that is gone before its time is lost; one that is gone after it is not", () => {
  assert.deepEqual(kinds(job(seen("IN_QUEUE", "GONE"))), ["lost"]);
  assert.deepEqual(kinds(job(seen("COMPLETED 1", "GONE"))), ["lost"]);
  assert.deepEqual(kinds(job(seen("COMPLETED 1", "GONE"), { keptUntilMs: 1 })), []);
});

test("an accepted job that never becomes final is stuck, also one that nobody saw again", () => {
  assert.deepEqual(kinds(job(seen("IN_QUEUE", "IN_PROGRESS"))), ["stuck"]);
  assert.deepEqual(kinds(job([])), ["stuck"]);
});

test("a final job that changes its state or its result has finished twice", () => {
  assert.deepEqual(kinds(job(seen("COMPLETED 1", "COMPLETED 2"))), ["doubled"]);
  assert.deepEqual(kinds(job(seen("FAILED", "COMPLETED 1"))), ["doubled"]);
  assert.deepEqual(kinds(job(seen("COMPLETED 1", "IN_QUEUE"))), ["doubled"]);
});

test("a job that was never accepted is not looked for, but each of its requests must have an answer", () => {
  assert.deepEqual(kinds(job([], { acceptedAtMs: undefined })), []);
  assert.deepEqual(kinds(job([], { acceptedAtMs: undefined, unanswered: 1 })), ["unanswered"]);
  assert.deepEqual(kinds(job(seen("COMPLETED 1"), { wrong: ["500"] })), ["wrong"]);
});
