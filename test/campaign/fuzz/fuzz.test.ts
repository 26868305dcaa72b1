import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { test } from "node:test";
import { fuzz } from "./fuzz.ts";

test("made-up sources, manifests, settings, archives, requests and GraphQL documents are refused, never a crash, a hang or a 500", {
  timeout: 300_000,
}, async (t) => {
  const seed = Number(process.env.SVC_FUZZ_SEED ?? randomInt(1_000_000));
  const { broken, rssMb, inputs } = await fuzz({ seed, texts: 1_500, requests: 2_000 });
  t.diagnostic(JSON.stringify(inputs));
  assert.equal(broken.length, 0, `seed ${seed}\n${broken.join("\n")}`);
  assert.ok(rssMb < 600, `${rssMb} MB`);
});
