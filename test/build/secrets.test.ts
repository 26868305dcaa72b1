import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { looksLikeSecret } from "../../src/build/secrets.ts";

describe("secrets", () => {
  test("are told from ordinary settings by shape, name and randomness", () => {
    for (const [name, value] of [
      ["OPENAI", "sk-abcdefghijklmnop1234567890"],
      ["X", "ghp_abcdefghijklmnopqrstuvwx12"],
      ["DB", "postgres://me:pa55word@db/x"],
      ["DB_PASSWORD", "correcthorse"],
      ["X", "q8Zr4kTn0pWxB7cM2vLh9sYdE3fG6jA1"],
    ] as const) {
      assert.ok(looksLikeSecret(name, value), `${name}=${value}`);
    }
    for (const [name, value] of [
      ["MODEL", "meta-llama/Llama-3.1-8B-Instruct"],
      ["TOKEN_LIMIT", "4096"],
      ["API_KEY", "<your key>"],
      ["API_KEY", "changeme"],
      ["PASSWORD", ""],
      ["SECRET_DIR", "/run/secrets"],
      ["URL", "https://example.org/a/b?c=d"],
      ["LONG", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
    ] as const) {
      assert.ok(!looksLikeSecret(name, value), `${name}=${value}`);
    }
  });
});
