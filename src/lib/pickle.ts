/**
 * Python's pickle format for plain data: dict, list, str, int, float, bool and None, and nothing that could run.
 *
 * A whole number is an int, everything else a number can be is a float; a bigint is an int of any size. Python's float
 * 2.0 therefore comes back as an int. Reading is in read-pickle.ts.
 */
export type PickleData =
  | string
  | number
  | bigint
  | boolean
  | null
  | readonly PickleData[]
  | { readonly [key: string]: PickleData };

/** Protocol 4, which every Python since 3.4 reads. Throws TypeError for a text that is not Unicode, and for cycles. */
export function writePickle(data: PickleData): Buffer {
  const body = new PickleWriter().write(data);
  const frame = Buffer.alloc(11);
  frame[0] = Op.PROTO;
  frame[1] = 4;
  frame[2] = Op.FRAME;
  frame.writeBigUInt64LE(BigInt(body.length), 3);
  return Buffer.concat([frame, body]);
}

/** The opcodes of plain data in protocols 0 to 5. */
export const Op = {
  MARK: 0x28, // (
  STOP: 0x2e, // .
  FLOAT: 0x46, // F
  BINFLOAT: 0x47, // G
  INT: 0x49, // I
  BININT: 0x4a, // J
  BININT1: 0x4b, // K
  LONG: 0x4c, // L
  BININT2: 0x4d, // M
  NONE: 0x4e, // N
  UNICODE: 0x56, // V
  BINUNICODE: 0x58, // X
  EMPTY_LIST: 0x5d, // ]
  APPEND: 0x61, // a
  DICT: 0x64, // d
  APPENDS: 0x65, // e
  GET: 0x67, // g
  BINGET: 0x68, // h
  LONG_BINGET: 0x6a, // j
  LIST: 0x6c, // l
  PUT: 0x70, // p
  BINPUT: 0x71, // q
  LONG_BINPUT: 0x72, // r
  SETITEM: 0x73, // s
  SETITEMS: 0x75, // u
  EMPTY_DICT: 0x7d, // }
  PROTO: 0x80,
  NEWTRUE: 0x88,
  NEWFALSE: 0x89,
  LONG1: 0x8a,
  LONG4: 0x8b,
  SHORT_BINUNICODE: 0x8c,
  BINUNICODE8: 0x8d,
  MEMOIZE: 0x94,
  FRAME: 0x95,
} as const;

class PickleWriter {
  readonly #parts: Uint8Array[] = [];
  /** The containers around the value being written. */
  readonly #open = new Set<object>();

  write(data: PickleData): Buffer {
    this.#value(data);
    this.#op(Op.STOP);
    return Buffer.concat(this.#parts);
  }

  #value(value: PickleData): void {
    if (value === null) this.#op(Op.NONE);
    else if (value === true) this.#op(Op.NEWTRUE);
    else if (value === false) this.#op(Op.NEWFALSE);
    else if (typeof value === "string") this.#text(value);
    else if (typeof value === "bigint") this.#long(value);
    else if (typeof value === "number") this.#number(value);
    else this.#container(value);
  }

  #container(value: readonly PickleData[] | { readonly [key: string]: PickleData }): void {
    if (this.#open.has(value)) throw new TypeError("The data contains itself.");
    this.#open.add(value);
    if (isList(value)) {
      this.#op(Op.EMPTY_LIST, Op.MARK);
      for (const item of value) this.#value(item);
      this.#op(Op.APPENDS);
    } else {
      this.#op(Op.EMPTY_DICT, Op.MARK);
      for (const [key, item] of Object.entries(value)) {
        this.#text(key);
        this.#value(item);
      }
      this.#op(Op.SETITEMS);
    }
    this.#open.delete(value);
  }

  #text(text: string): void {
    if (!text.isWellFormed()) throw new TypeError("A text holds half of a surrogate pair.");
    const bytes = Buffer.from(text, "utf8");
    if (bytes.length < 256) this.#op(Op.SHORT_BINUNICODE, bytes.length);
    else this.#withLength(Op.BINUNICODE, bytes.length);
    this.#parts.push(bytes);
  }

  #number(value: number): void {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
      const bytes = Buffer.alloc(9);
      bytes[0] = Op.BINFLOAT;
      bytes.writeDoubleBE(value, 1);
      this.#parts.push(bytes);
    } else if (value >= 0 && value < 256) this.#op(Op.BININT1, value);
    else if (value >= -0x8000_0000 && value <= 0x7fff_ffff) this.#withLength(Op.BININT, value);
    else this.#long(BigInt(value));
  }

  /** Two's complement, least byte first, with room for the sign. */
  #long(value: bigint): void {
    const bits = (value < 0n ? -value - 1n : value).toString(2).length;
    const size = value === 0n ? 0 : Math.floor(bits / 8) + 1;
    const hex = BigInt.asUintN(size * 8, value).toString(16);
    const bytes = Buffer.from(size === 0 ? "" : hex.padStart(size * 2, "0"), "hex").reverse();
    if (size < 256) this.#op(Op.LONG1, size);
    else this.#withLength(Op.LONG4, size);
    this.#parts.push(bytes);
  }

  #withLength(op: number, value: number): void {
    const bytes = Buffer.alloc(5);
    bytes[0] = op;
    bytes.writeInt32LE(value, 1);
    this.#parts.push(bytes);
  }

  #op(...bytes: number[]): void {
    this.#parts.push(Uint8Array.from(bytes));
  }
}

function isList(value: object): value is readonly PickleData[] {
  return Array.isArray(value);
}
