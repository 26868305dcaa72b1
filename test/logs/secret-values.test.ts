import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { secretLabel } from "../../src/domain/secret.ts";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import { MASK, SecretValues } from "../../src/logs/secret-values.ts";
import type { Endpoint, Store } from "../../src/store/store.ts";

function values(_: TestContext, secrets: Record<string, string>) {
  const seal = new SealedText(randomBytes(SEAL_KEY_BYTES));
  const stored = () =>
    Object.entries(secrets).map(([name, value]) => ({ name, sealed: seal.seal(value, secretLabel("env-1", name)) }));
  const store = { secrets: { listByEnvironment: async () => stored() } } as unknown as Store;
  return new SecretValues(store, seal);
}

function endpoint(env: Endpoint["env"]): Endpoint {
  return { id: "ep-1", name: "hello", environmentId: "env-1", env } as Endpoint;
}

test("A worker gets the values of its secrets, and its log masks them, also those that were replaced since", async (t) => {
  const secrets = { TOKEN: "first-value" };
  const opened = values(t, secrets);
  const uses = endpoint({ PLAIN: "text", KEY: { secret: "TOKEN" } });
  assert.deepEqual(await opened.envOf(uses), { PLAIN: "text", KEY: "first-value" });
  secrets.TOKEN = "second-value";
  await opened.envOf(uses);
  assert.equal(opened.mask("ep-1", "first-value, second-value, text"), `${MASK}, ${MASK}, text`);
  assert.equal(opened.mask("ep-2", "first-value"), "first-value");
  opened.forget("ep-1");
  assert.equal(opened.mask("ep-1", "first-value"), "first-value");
});

test("A secret that does not exist is named, with what to do", async (t) => {
  const missing = values(t, {}).envOf(endpoint({ KEY: { secret: "TOKEN" } }));
  await assert.rejects(missing, { code: "INVALID_SETTING", help: "Set it: svc secret set TOKEN" });
});

test("Variables that no worker could be started with are refused with their size", async (t) => {
  const uses = endpoint({ KEY: { secret: "A" }, MORE: "x".repeat(100_000) });
  await assert.rejects(values(t, { A: "y".repeat(60_000) }).envOf(uses), /160011 bytes together; at most 131072/);
});
