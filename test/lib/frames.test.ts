import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { encodeFrame, FrameReader, parseHead } from "../../src/lib/frames.ts";

const MAX = 1_000_000;

test("Frames come out as they went in, however the stream is cut", () => {
  const frame = fc.record({
    type: fc.nat(255),
    flags: fc.nat(255),
    channel: fc.nat(0xffffffff),
    head: fc.option(fc.dictionary(fc.string(), fc.string()), { nil: undefined }),
    body: fc.uint8Array({ maxLength: 300 }),
  });
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
      (frames, cuts) => {
        const bytes = Buffer.concat(frames.flatMap((f) => encodeFrame(f.type, f.channel, f.head, f.body, f.flags)));
        const reader = new FrameReader(MAX);
        const seen = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const next = at + cuts[i % cuts.length]!;
          seen.push(...reader.push(bytes.subarray(at, next)));
          at = next;
        }
        assert.deepEqual(
          seen.map((f) => [f.type, f.flags, f.channel, parseHead(f), [...f.body]]),
          frames.map((f) => [f.type, f.flags, f.channel, { ...f.head }, [...f.body]]),
        );
      },
    ),
  );
});

test("A length outside the bounds ends the link instead of filling memory", () => {
  const huge = Buffer.alloc(12);
  huge.writeUInt32BE(MAX + 1, 0);
  assert.throws(() => new FrameReader(MAX).push(huge), { name: "FrameError" });
  assert.throws(() => new FrameReader(MAX).push(Buffer.alloc(12)), { name: "FrameError" });
});
