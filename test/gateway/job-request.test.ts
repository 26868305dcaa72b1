import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { parseJobRequest } from "../../src/gateway/job-request.ts";

const parse = (text: string) => parseJobRequest(Buffer.from(text));

const REFUSED: [title: string, body: string | Buffer, ...says: RegExp[]][] = [
  ["an empty body", "", /empty/],
  ["broken JSON, with its place", '{"input": {"a": }}', /line 1, column 17: expected a value/],
  ["bytes that are not UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), /UTF-8/],
  ["an array", "[]", /an object .* not an array/],
  ["no input", "{}", /"input" is missing/],
  ["a null input", '{"input":null}', /"input" must be an object, not null/],
  ["an array as input", '{"input":[1]}', /not an array/],
  ["a text as input", '{"input":"x"}', /not a text/],
  ["a number as input", '{"input":3}', /not a number/],
  ["a short time-out", '{"input":{},"policy":{"executionTimeout":4999}}', /executionTimeout.* from 5000 to 604800000/],
  ["a fractional time-out", '{"input":{},"policy":{"executionTimeout":5000.5}}', /whole number/],
  ["a ttl beyond a week", '{"input":{},"policy":{"ttl":604800001}}', /ttl.* from 10000/],
  ["a ttl as text", '{"input":{},"policy":{"ttl":"10000"}}', /ttl/],
  ["lowPriority as text", '{"input":{},"policy":{"lowPriority":"yes"}}', /lowPriority.* true or false/],
  ["a policy that is an array", '{"input":{},"policy":[]}', /"policy" must be an object/],
  ["a webhook that is no URL", '{"input":{},"webhook":"example"}', /"webhook"/],
  ["a webhook of another scheme", '{"input":{},"webhook":"file:///etc/passwd"}', /http or https/],
  [
    "a method that is longer than any name",
    `{"input":{},"method":"${"m".repeat(256)}"}`,
    /256 characters; at most 255/,
  ],
  ["a method that is no text", '{"input":{},"method":5}', /"method"/],
  [
    "several faults are told at once",
    '{"input":[],"webhook":1,"policy":{"ttl":1,"executionTimeout":1}}',
    /"input"/,
    /"webhook"/,
    /policy\.ttl/,
    /policy\.executionTimeout/,
  ],
];

for (const [title, body, ...says] of REFUSED) {
  test(`refused: ${title}`, () => {
    assert.throws(
      () => parseJobRequest(Buffer.from(body)),
      (error) => {
        assert.ok(error instanceof SvcError);
        assert.equal(error.code, "BAD_INPUT");
        for (const pattern of says) assert.match(error.message, pattern);
        return true;
      },
    );
  });
}

const LONG = "x".repeat(100_000);

for (const [title, body] of [
  ["a line break", `{"input":{"a":"${LONG}\n"}}`],
  ["a wrong escape", `{"input":{"a":"${LONG}\\q${LONG}"}}`],
  ["half an escape", `{"input":{"a":"${LONG}\\u12"}}`],
  ["no end", `{"input":{"a":"${LONG}}}`],
  ["something behind it", `{"input":{"a":"${LONG}" "${LONG}"}}`],
  ["a key without a value", `{"input":{"${LONG}"}}`],
] as const) {
  test(`refused: a long text with ${title}, as a short one is`, () => {
    assert.throws(() => parse(body), /not valid JSON at line/);
  });
}

test("long texts in the input pass on byte for byte; elsewhere they are read", () => {
  const input = `{"${LONG}":"${LONG}é\\n\\u00e9","b":["${LONG}"]}`;
  const { method, ...request } = parse(`{"method":"m","input":${input},"other":"${LONG}"}`);
  assert.equal(request.input.toString(), input);
  assert.equal(method, "m");
  assert.throws(() => parse(`{"input":{},"method":"${LONG}"}`), /100000 characters/);
  assert.throws(() => parse(`{"input":"${LONG}"}`), /not a text/);
});

test("input passes on byte for byte; everything else has its default", () => {
  const request = parse('{"other": 1, "input": { "a" : 1.00, "big": 12345678901234567890 } }');
  assert.equal(request.input.toString(), '{ "a" : 1.00, "big": 12345678901234567890 }');
  assert.deepEqual(
    { ...request, input: "" },
    { input: "", method: "", webhook: "", lowPriority: false, executionTimeoutMs: undefined, ttlMs: 86_400_000 },
  );
});

test("everything a caller may set arrives", () => {
  const policy = '{"executionTimeout":5000,"ttl":10000,"lowPriority":true}';
  const request = parse(`{"input":{},"webhook":"https://example.org/x","method":"predict","policy":${policy}}`);
  assert.deepEqual(
    { ...request, input: request.input.toString() },
    {
      input: "{}",
      method: "predict",
      webhook: "https://example.org/x",
      lowPriority: true,
      executionTimeoutMs: 5000,
      ttlMs: 10_000,
    },
  );
});

test("null stands for what is not set", () => {
  const request = parse('{"input":{},"webhook":null,"policy":null,"method":null}');
  assert.equal(request.webhook, "");
  assert.equal(parse('{"input":{},"policy":{"ttl":null,"lowPriority":null}}').ttlMs, 86_400_000);
});

test("a byte order mark before the body is passed over", () => {
  assert.equal(parse('\uFEFF{"input":{"a":1}}').input.toString(), '{"a":1}');
});

test("a prototype key is a key like any other", () => {
  assert.throws(() => parse('{"__proto__":{"input":{}}}'), /"input" is missing/);
});
