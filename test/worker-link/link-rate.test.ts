import assert from "node:assert/strict";
import { test } from "node:test";
import { LINK_BURST_BYTES, LINK_RATE_BYTES_PER_S } from "../../src/domain/limits.ts";
import { LinkRate } from "../../src/worker-link/link-rate.ts";

const PIECE = 12_345;

test("A worker that was silent says no more at once than one burst, however long that was", () => {
  let now = 0;
  const rate = new LinkRate(() => now);
  for (const silentMs of [0, 1_000, 60_000, 3_600_000]) {
    now += silentMs;
    // So that the bucket is full, and something was said since it was.
    rate.spend(PIECE);
    now += 10_000;
    let said = 0;
    for (; said < 3 * LINK_BURST_BYTES && rate.owedMs() === 0; said += PIECE) rate.spend(PIECE);
    assert.ok(said <= LINK_BURST_BYTES + PIECE, `${said} bytes after ${silentMs} ms`);
    now += rate.owedMs();
    assert.equal(rate.owedMs(), 0);
  }
});

test("The same where the clock is looked at only when more was said than there was", () => {
  let now = 0;
  const rate = new LinkRate(() => now);
  now += 60_000;
  let said = 0;
  for (; said < 3 * LINK_BURST_BYTES; said += PIECE) {
    rate.spend(PIECE);
    if (rate.isOverdrawn && rate.owedMs() > 0) break;
  }
  assert.ok(said <= LINK_BURST_BYTES + PIECE, `${said} bytes`);
});

test("A worker that says what the rate lets it is never held up", () => {
  let now = 0;
  const rate = new LinkRate(() => now);
  const stepMs = 7;
  for (; now < 600_000; now += stepMs) {
    rate.spend((LINK_RATE_BYTES_PER_S * stepMs) / 1000);
    assert.ok(!rate.isOverdrawn || rate.owedMs() === 0, `held up at ${now} ms`);
  }
  // Nor is a burst now and then, once the bucket is full again; what was said before may count with it, which is little.
  for (let burst = 0; burst < 10; burst++) {
    now += (LINK_BURST_BYTES / LINK_RATE_BYTES_PER_S) * 1000 + 200;
    rate.spend(LINK_BURST_BYTES * 0.96);
    assert.equal(rate.owedMs(), 0, `burst ${burst}`);
  }
});
