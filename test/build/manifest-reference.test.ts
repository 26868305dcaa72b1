import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { z } from "zod";
import { manifestSchema } from "../../src/domain/manifest-schema.ts";

test("the JSON Schema in the manifest's reference is the one that is enforced", () => {
  const page = readFileSync(path.join(import.meta.dirname, "../../docs/reference/manifest.md"), "utf8");
  const shown = JSON.parse(/```json\n([\s\S]*?)```/.exec(page)![1]!);
  assert.deepEqual(shown, JSON.parse(JSON.stringify(z.toJSONSchema(manifestSchema))));
});
