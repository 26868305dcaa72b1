/** The values in a pickle that are no containers, read from its bytes. */
import { Op } from "./pickle.ts";

/** The bytes are no pickle of plain data. The message completes "it cannot be read: ". */
export class PickleError extends Error {}

/** The bytes of a pickle and the place of the next opcode. */
export class PickleBytes {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get at(): number {
    return this.#at;
  }

  take(size: number): Buffer {
    if (size > this.#bytes.length - this.#at) throw new PickleError("it is cut off");
    this.#at += size;
    return this.#bytes.subarray(this.#at - size, this.#at);
  }

  /** A number of 1, 2 or 4 bytes. */
  unsigned(size: number): number {
    return this.take(size).readUIntLE(0, size);
  }

  line(): string {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    const line = this.take((end < 0 ? Number.POSITIVE_INFINITY : end + 1) - this.#at);
    return line.toString("latin1", 0, line.length - 1);
  }
}

/** The value of an opcode that stands for one; undefined for every other opcode. */
export function readScalar(op: number, bytes: PickleBytes): string | number | bigint | boolean | null | undefined {
  switch (op) {
    case Op.NONE:
      return null;
    case Op.NEWTRUE:
      return true;
    case Op.NEWFALSE:
      return false;
    case Op.INT: {
      const line = bytes.line();
      return line === "01" ? true : line === "00" ? false : integer(line);
    }
    case Op.LONG:
      return integer(bytes.line().replace(/L$/, ""));
    case Op.BININT:
      return bytes.take(4).readInt32LE();
    case Op.BININT1:
      return bytes.unsigned(1);
    case Op.BININT2:
      return bytes.unsigned(2);
    case Op.LONG1:
      return long(bytes.take(bytes.unsigned(1)));
    case Op.LONG4:
      return long(bytes.take(bytes.unsigned(4)));
    case Op.FLOAT:
      return float(bytes.line());
    case Op.BINFLOAT:
      return bytes.take(8).readDoubleBE();
    case Op.UNICODE:
      return escapedText(bytes.line());
    case Op.SHORT_BINUNICODE:
      return text(bytes.take(bytes.unsigned(1)));
    case Op.BINUNICODE:
      return text(bytes.take(bytes.unsigned(4)));
    case Op.BINUNICODE8:
      return text(bytes.take(Number(bytes.take(8).readBigUInt64LE())));
    default:
      return undefined;
  }
}

export function integer(line: string): number | bigint {
  if (!/^-?\d+$/.test(line)) throw new PickleError("a number in it is damaged");
  return small(BigInt(line));
}

/** Two's complement, least byte first. */
function long(bytes: Buffer): number | bigint {
  if (bytes.length === 0) return 0;
  const value = BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`);
  return small(BigInt.asIntN(bytes.length * 8, value));
}

function small(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function float(line: string): number {
  const word = /^(-?)(inf|nan)$/.exec(line);
  if (word !== null) return word[2] === "nan" ? Number.NaN : word[1] === "-" ? -Infinity : Infinity;
  if (!/^-?\d+(\.\d+)?(e[+-]?\d+)?$/.test(line)) throw new PickleError("a number in it is damaged");
  return Number(line);
}

function text(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new PickleError("a text in it is not Unicode");
  }
}

/** Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX. */
function escapedText(line: string): string {
  const value = line.replace(/\\u([0-9a-f]{4})|\\U(00[01][0-9a-f]{5})/g, (_, short, long) => {
    const code = Number.parseInt(short ?? long, 16);
    return code > 0x10ffff ? "\ud800" : String.fromCodePoint(code);
  });
  if (!value.isWellFormed()) throw new PickleError("a text in it is not Unicode");
  return value;
}
