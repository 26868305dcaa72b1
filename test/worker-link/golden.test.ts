import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { FRAME_MAX_BYTES } from "../../src/domain/limits.ts";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { encodeFrame, FrameReader } from "../../src/lib/frames.ts";

interface GoldenFrame {
  readonly name: keyof typeof FRAME;
  readonly type: number;
  readonly flags: number;
  readonly channel: number;
  readonly head: string;
  readonly body: string;
  readonly hex: string;
}

const file = path.resolve(import.meta.dirname, "../../docs/reference/protocol-golden/frames.json");
const golden = JSON.parse(readFileSync(file, "utf8")) as GoldenFrame[];

test("Each golden frame encodes to its bytes and reads back", () => {
  for (const { name, type, flags, channel, head, body, hex } of golden) {
    assert.equal(FRAME[name], type, name);
    const bytes = Buffer.concat(encodeFrame(type, channel, head === "" ? undefined : head, Buffer.from(body), flags));
    assert.equal(bytes.toString("hex"), hex, name);
    const [frame, ...more] = new FrameReader(FRAME_MAX_BYTES).push(bytes);
    assert.deepEqual(more, []);
    const { headBytes, body: bodyBytes, ...rest } = frame!;
    assert.deepEqual(rest, { type, flags, channel });
    assert.deepEqual([headBytes.toString(), bodyBytes.toString()], [head, body], name);
  }
});

test("There is a golden frame of each type", () => {
  assert.deepEqual(golden.map(({ name }) => name).sort(), Object.keys(FRAME).sort());
});
