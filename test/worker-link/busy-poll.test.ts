import assert from "node:assert/strict";
import { test } from "node:test";
import { BUSY_POLL_PAUSE_MAX } from "../../src/domain/limits.ts";
import { BusyPoll } from "../../src/worker-link/busy-poll.ts";

/** Whether something keeps the event loop from going to sleep. */
const isAwake = () => process.getActiveResourcesInfo().includes("Immediate");

/** Resolves when the event loop may sleep again. */
async function asleep(): Promise<void> {
  while (isAwake()) await new Promise((resolve) => setTimeout(resolve));
}

test("While an answer is due the event loop stays awake, and no longer than until it comes", async () => {
  const poll = new BusyPoll();
  assert.equal(isAwake(), false);
  for (let times = 0; times < 3; times++) {
    poll.expect();
    assert.equal(isAwake(), true);
    poll.arrived();
    await asleep();
  }
});

test("Polling in vain ends by itself and is left out more often each time, until an answer comes in time again", async () => {
  const poll = new BusyPoll();
  /** How many expectations are left out before the next one is polled for. */
  const leftOut = () => {
    for (let times = 0; ; times++) {
      poll.expect();
      if (isAwake()) return times;
    }
  };
  const seen: number[] = [];
  for (let times = 0; times < 8; times++) {
    seen.push(leftOut());
    await asleep();
  }
  assert.deepEqual(seen, [0, 1, 3, 7, 15, 31, BUSY_POLL_PAUSE_MAX, BUSY_POLL_PAUSE_MAX]);
  assert.equal(leftOut(), BUSY_POLL_PAUSE_MAX);
  poll.arrived();
  await asleep();
  assert.equal(leftOut(), 0);
  poll.arrived();
});
