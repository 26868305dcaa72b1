import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, test } from "node:test";
import fc from "fast-check";
import { type PickleData, writePickle } from "../../src/lib/pickle.ts";
import { PickleError } from "../../src/lib/pickle-scalars.ts";
import { readPickle } from "../../src/lib/read-pickle.ts";

/** Says of each pickle (hex, one a line) what CPython reads in it, as `repr`; a pickle with more than plain data fails. */
const READ = `
import json, pickle, pickletools, sys
def plain(value):
    if type(value) is dict: return [{"k": k, "v": plain(v)} for k, v in value.items()]
    if type(value) is list: return {"list": [plain(v) for v in value]}
    return f"{type(value).__name__} {value!r}" if type(value) is not str else "s" + value
for line in sys.stdin:
    data = bytes.fromhex(line)
    names = {op.name for op, _, _ in pickletools.genops(data)}
    pickletools.dis(data, out=open("/dev/null", "w"))
    print(json.dumps(plain(pickle.loads(data))))
`;

/** Pickles each JSON line in every protocol. */
const WRITE = `
import json, math, pickle, sys
def plain(value):
    if isinstance(value, dict):
        if "float" in value: return float(value["float"])
        if "int" in value: return int(value["int"])
        return {k: plain(v) for k, v in value["dict"]}
    return [plain(v) for v in value] if isinstance(value, list) else value
for line in sys.stdin:
    value = plain(json.loads(line))
    print(json.dumps([pickle.dumps(value, p).hex() for p in range(6)]))
`;

function python(script: string, lines: readonly string[]): unknown[] {
  const input = `${lines.join("\n")}\n`;
  const output = execFileSync("python3", ["-c", script], { input, encoding: "utf8", maxBuffer: 1 << 28 });
  return output
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

const text = fc.string({ unit: "binary" });
const data = fc.letrec<{ value: PickleData }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    text,
    fc.constant(null),
    fc.boolean(),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.bigInt(),
    fc.double(),
    fc.array(tie("value")),
    fc.dictionary(text, tie("value")),
  ),
})).value;

/** As READ shows it. */
function shown(value: PickleData): unknown {
  if (typeof value === "string") return `s${value}`;
  if (value === null) return "NoneType None";
  if (typeof value === "boolean") return value ? "bool True" : "bool False";
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return Object.is(value, -0) ? "float" : `int ${value}`;
  if (typeof value === "number") return "float";
  if (Array.isArray(value)) return { list: value.map(shown) };
  return Object.entries(value).map(([k, v]) => ({ k, v: shown(v) }));
}

/** For WRITE, which gets ints and floats apart. */
function told(value: PickleData): unknown {
  if (typeof value === "bigint") return { int: String(value) };
  if (typeof value === "number") {
    return Number.isSafeInteger(value) && !Object.is(value, -0)
      ? value
      : { float: Object.is(value, -0) ? "-0" : String(value) };
  }
  if (Array.isArray(value)) return value.map(told);
  if (typeof value !== "object" || value === null) return value;
  return { dict: Object.entries(value).map(([k, v]) => [k, told(v)]) };
}

/** A bigint that a number can hold comes back as a number. */
function back(value: PickleData): PickleData {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (Array.isArray(value)) return value.map(back);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, back(v)]));
}

/** Floats without their digits: Python and JavaScript write some of them differently. */
function withoutDigits(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replace(/"float [^"]*"/g, '"float"'));
}

const RUNS = 400;

describe("a pickle", () => {
  test("that is written here is what Python reads", () => {
    const samples = fc.sample(data, { numRuns: RUNS, seed: 7 });
    const seen = python(
      READ,
      samples.map((sample) => writePickle(sample).toString("hex")),
    );
    assert.deepEqual(seen.map(withoutDigits), samples.map(shown));
  });

  test("of plain data that Python wrote is read, in every protocol", () => {
    const samples = fc.sample(data, { numRuns: RUNS, seed: 11 });
    const written = python(
      WRITE,
      samples.map((sample) => JSON.stringify(told(sample))),
    ) as string[][];
    for (const [index, protocols] of written.entries()) {
      for (const hex of protocols) assert.deepEqual(readPickle(Buffer.from(hex, "hex")), back(samples[index]!));
    }
  });

  test("comes back as it was written", () => {
    fc.assert(fc.property(data, (value) => assert.deepEqual(readPickle(writePickle(value)), back(value))));
  });

  test("of numbers at the edges of their sizes comes back", () => {
    const edges = [7, 8, 15, 16, 31, 32, 53, 63, 64, 2039, 2040, 2048].map((bits) => 1n << BigInt(bits));
    const ints = edges.flatMap((edge) => [edge - 1n, edge, edge + 1n, -edge + 1n, -edge, -edge - 1n]);
    assert.deepEqual(readPickle(writePickle(ints)), back(ints));
    const seen = python(READ, [writePickle(ints).toString("hex")]);
    assert.deepEqual(seen, [{ list: ints.map((int) => `int ${int}`) }]);
    const floats = [0.1, 1e300, 5e-324, Infinity, -Infinity, Number.NaN, -0];
    assert.deepEqual(readPickle(writePickle(floats)), floats);
  });

  test("with one value in two places is read; one that contains itself is not", () => {
    const [shared, cyclic, cross] = python(
      `
import json, pickle, sys
a = ["x"]; l = []; l.append(l); d = {"a": []}; d["a"].append(d)
print("\\n".join(json.dumps([pickle.dumps(v, p).hex() for p in range(6)]) for v in ([a, a, {"k": a}], l, d)))`,
      [],
    ) as string[][];
    for (const hex of shared!) assert.deepEqual(readPickle(Buffer.from(hex, "hex")), [["x"], ["x"], { k: ["x"] }]);
    for (const hex of [...cyclic!, ...cross!]) {
      assert.throws(() => readPickle(Buffer.from(hex, "hex")), /contains itself/);
    }
    // By hand: a list that got its place first and takes an item later.
    assert.throws(() => readPickle(Buffer.from("]]q\x00a]q\x01h\x00aa000h\x00h\x01a.", "latin1")), PickleError);
    assert.throws(() => readPickle(Buffer.from("(]q\x00]q\x01h\x00ah\x00h\x01al.", "latin1")), /contains itself/);
  });

  test("with anything that could run, or that is no plain data, is refused by name of the opcode", () => {
    const script = `
import collections, datetime, json, os, pickle
class Evil:
    def __reduce__(self): return os.system, ("echo ran >&2",)
values = [Evil(), [1, {"a": Evil()}], os.system, datetime.date(2020, 1, 1), {1, 2}, (1, 2), b"bytes", 1j, collections.OrderedDict()]
print("\\n".join(json.dumps([pickle.dumps(v, p).hex() for p in range(6)]) for v in values))`;
    const refused = (python(script, []) as string[][]).flat();
    assert.equal(refused.length, 54);
    for (const hex of refused) {
      assert.throws(
        () => readPickle(Buffer.from(hex, "hex")),
        (error: Error) => {
          assert.ok(error instanceof PickleError);
          return /more than plain data \(opcode ("."|0x[0-9a-f]+) at byte \d+\)/.test(error.message);
        },
      );
    }
    const [number] = python(`import pickle, json; print(json.dumps(pickle.dumps({1: 2}).hex()))`, []) as string[];
    assert.throws(() => readPickle(Buffer.from(number!, "hex")), /key that is no text/);
  });

  test("with a key __proto__ is a plain dict", () => {
    const read = readPickle(writePickle(JSON.parse('{"__proto__": {"polluted": true}}'))) as object;
    assert.equal(Object.getPrototypeOf(read), Object.prototype);
    assert.deepEqual(Object.keys(read), ["__proto__"]);
  });

  test("that is damaged says so and nothing else", () => {
    fc.assert(
      fc.property(data, fc.nat(), fc.nat(255), (value, place, byte) => {
        const bytes = writePickle(value);
        const at = place % bytes.length;
        const cut = bytes.subarray(0, at);
        assert.throws(() => readPickle(cut), PickleError);
        bytes[at] = byte;
        try {
          readPickle(bytes);
        } catch (error) {
          assert.ok(error instanceof PickleError, String(error));
        }
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        try {
          readPickle(bytes);
        } catch (error) {
          assert.ok(error instanceof PickleError, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("is not made of what Python could not read back", () => {
    const cycle: PickleData[] = [];
    cycle.push(cycle);
    assert.throws(() => writePickle(cycle), /contains itself/);
    assert.throws(() => writePickle("half \ud83d"), TypeError);
  });
});
