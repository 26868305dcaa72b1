import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readConfig } from "../../src/server/config.ts";
import { addSecretKey, derivedKeys, dropOlderSecretKeys, keyId, readSecretKeys } from "../../src/server/secret-keys.ts";
import { tempDir } from "../e2e/platform.ts";

const none = { keys: undefined, file: undefined };
const fresh = () => randomBytes(32).toString("base64");
const bytes = (text: string) => Buffer.from(text, "base64");

test("the key of the secrets is made once, for its owner's eyes only, and a damaged one is not replaced", (t) => {
  const dir = tempDir(t);
  const keys = readSecretKeys(dir, none);
  assert.deepEqual(
    keys.map(({ length }) => length),
    [32],
  );
  assert.deepEqual(readSecretKeys(dir, none), keys);
  assert.deepEqual(readdirSync(dir), ["secret.key"]);
  assert.equal(statSync(join(dir, "secret.key")).mode & 0o777, 0o600);
  for (const damaged of ["", "short\n", `${fresh()}\nno key\n`, `${fresh()}\n`.repeat(9), "\0".repeat(100)]) {
    writeFileSync(join(dir, "secret.key"), damaged);
    assert.throws(() => readSecretKeys(dir, none), { code: "DATA_DIRECTORY", help: /backup/ }, damaged);
  }
});

test("keys from elsewhere count before that of the data directory, and none is made then", (t) => {
  const dir = tempDir(t);
  const [one, two] = [fresh(), fresh()];
  const file = join(dir, "mounted");
  writeFileSync(file, `${one}\n\n${two}\n${one}\n`);
  assert.deepEqual(readSecretKeys(join(dir, "none"), { keys: undefined, file }), [bytes(one), bytes(two)]);
  assert.deepEqual(readdirSync(dir), ["mounted"]);
  const [own] = readSecretKeys(dir, none);
  assert.deepEqual(readSecretKeys(dir, { keys: [bytes(two)], file: undefined }), [bytes(two), own]);
  rmSync(file);
  assert.throws(() => readSecretKeys(dir, { keys: undefined, file }), { code: "DATA_DIRECTORY", where: file });
  mkdirSync(file);
  assert.throws(() => readSecretKeys(dir, { keys: undefined, file }), { code: "DATA_DIRECTORY", where: file });
});

test("a new key goes before the others, and the others go", async (t) => {
  const dir = tempDir(t);
  const [old] = readSecretKeys(dir, none);
  await addSecretKey(dir);
  const both = readSecretKeys(dir, none);
  assert.deepEqual(both.slice(1), [old]);
  assert.notDeepEqual(both[0], old);
  assert.equal(statSync(join(dir, "secret.key")).mode & 0o777, 0o600);
  await dropOlderSecretKeys(dir);
  assert.deepEqual(readSecretKeys(dir, none), both.slice(0, 1));
  assert.deepEqual(readdirSync(dir), ["secret.key"]);
});

test("what is derived of a key is of one purpose, and its name tells nothing of it", () => {
  const [one, two] = [bytes(fresh()), bytes(fresh())];
  const [ofOne, ofTwo] = derivedKeys([one, two], "urls");
  assert.deepEqual(derivedKeys([two], "urls"), [ofTwo]);
  assert.notDeepEqual(derivedKeys([one], "tickets"), [ofOne]);
  assert.match(keyId(one), /^[\da-f]{8}$/);
  assert.ok(!one.toString("hex").includes(keyId(one)));
});

test("the settings of keys are checked, and what is wrong does not show them", () => {
  const given = (env: Record<string, string>) => readConfig({ SVC_DATA_DIR: "/d", ...env });
  const [one, two] = [fresh(), fresh()];
  assert.deepEqual(given({ SVC_SECRET_KEYS: `${one}, ${two}` }).secretKeys.keys, [bytes(one), bytes(two)]);
  assert.deepEqual(given({ SVC_SECRET_KEYS: bytes(one).toString("base64url") }).secretKeys.keys, [bytes(one)]);
  assert.equal(given({ SVC_SECRET_KEYS: one }).installerEnv.SVC_SECRET_KEYS, undefined);
  const wrong: [Record<string, string>, RegExp][] = [
    [{ SVC_SECRET_KEYS: `${one},short-value` }, /SVC_SECRET_KEYS: a part of it is no key: 32 random bytes in base64/],
    [{ SVC_SECRET_KEYS: `${one},` }, /is no key/],
    [{ SVC_SECRET_KEYS: Array.from({ length: 9 }, fresh).join() }, /has more than 8 keys/],
    [{ SVC_SECRET_KEY_FILE: "keys" }, /SVC_SECRET_KEY_FILE: is not an absolute path/],
    [{ SVC_SECRET_KEY_FILE: "/k", SVC_SECRET_KEYS: one }, /only one of them/],
  ];
  for (const [env, message] of wrong) {
    assert.throws(
      () => given(env),
      (error: Error) => {
        assert.match(error.message, message);
        assert.ok(!error.message.includes(one) && !error.message.includes("short-value"), error.message);
        return true;
      },
    );
  }
});

test("a file of keys that cannot be read shows none of them", (t) => {
  const file = join(tempDir(t), "keys");
  const text = `${fresh()}\nhalf-a-key\n`;
  writeFileSync(file, text);
  assert.throws(
    () => readSecretKeys(join(file, ".."), { keys: undefined, file }),
    (error: Error) => !text.split("\n").some((line) => line !== "" && error.message.includes(line)),
  );
  assert.equal(readFileSync(file, "utf8"), text);
});
