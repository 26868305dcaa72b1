/**
 * Reads pickles of plain data, of every protocol (0 to 5). Only the opcodes of pickle.ts are known: one that imports,
 * calls or builds an object is refused before anything happens.
 */
import { Op, type PickleData } from "./pickle.ts";
import { integer, PickleBytes, PickleError, readScalar } from "./pickle-scalars.ts";

/** Ints beyond 2^53 come back as bigint. Throws PickleError. */
export function readPickle(bytes: Uint8Array): PickleData {
  const source = new PickleBytes(bytes);
  const machine = new PickleMachine(source);
  for (let op = source.unsigned(1); op !== Op.STOP; op = source.unsigned(1)) machine.step(op);
  return machine.result();
}

const MARK = Symbol("mark");
const PROTOCOL_MAX = 5;
type Dict = { [key: string]: PickleData };

class PickleMachine {
  readonly #bytes: PickleBytes;
  readonly #stack: (PickleData | typeof MARK)[] = [];
  readonly #memo = new Map<number, PickleData>();

  constructor(bytes: PickleBytes) {
    this.#bytes = bytes;
  }

  result(): PickleData {
    const value = this.#pop();
    if (this.#stack.length > 0) throw new PickleError("it holds more than one value");
    requireTree(value);
    return value;
  }

  step(op: number): void {
    const scalar = readScalar(op, this.#bytes);
    if (scalar !== undefined) this.#stack.push(scalar);
    else if (!this.#container(op) && !this.#remember(op)) this.#other(op);
  }

  #container(op: number): boolean {
    if (op === Op.MARK) this.#stack.push(MARK);
    else if (op === Op.EMPTY_LIST) this.#stack.push([]);
    else if (op === Op.EMPTY_DICT) this.#stack.push({});
    else if (op === Op.LIST) this.#stack.push(this.#sinceMark());
    else if (op === Op.DICT) this.#stack.push(filled({}, this.#sinceMark()));
    else if (op === Op.APPEND) this.#append([this.#pop()]);
    else if (op === Op.APPENDS) this.#append(this.#sinceMark());
    else if (op === Op.SETITEM) this.#set([this.#pop(), this.#pop()].reverse());
    else if (op === Op.SETITEMS) this.#set(this.#sinceMark());
    else return false;
    return true;
  }

  #remember(op: number): boolean {
    const bytes = this.#bytes;
    if (op === Op.MEMOIZE) this.#put(this.#memo.size);
    else if (op === Op.PUT) this.#put(Number(integer(bytes.line())));
    else if (op === Op.BINPUT) this.#put(bytes.unsigned(1));
    else if (op === Op.LONG_BINPUT) this.#put(bytes.unsigned(4));
    else if (op === Op.GET) this.#get(Number(integer(bytes.line())));
    else if (op === Op.BINGET) this.#get(bytes.unsigned(1));
    else if (op === Op.LONG_BINGET) this.#get(bytes.unsigned(4));
    else return false;
    return true;
  }

  #other(op: number): void {
    if (op === Op.FRAME) this.#bytes.take(8);
    else if (op === Op.PROTO) {
      if (this.#bytes.unsigned(1) > PROTOCOL_MAX) throw new PickleError("it has a newer format");
    } else {
      const shown = op > 0x20 && op < 0x7f ? `"${String.fromCharCode(op)}"` : `0x${op.toString(16)}`;
      throw new PickleError(`it holds more than plain data (opcode ${shown} at byte ${this.#bytes.at - 1})`);
    }
  }

  #put(index: number): void {
    const value = this.#stack.at(-1);
    if (value === undefined || value === MARK) throw damaged();
    this.#memo.set(index, value);
  }

  #get(index: number): void {
    const value = this.#memo.get(index);
    if (value === undefined) throw damaged();
    this.#stack.push(value);
  }

  #append(values: readonly PickleData[]): void {
    const list = this.#stack.at(-1);
    if (!Array.isArray(list)) throw damaged();
    for (const value of values) list.push(value);
  }

  #set(pairs: readonly PickleData[]): void {
    const dict = this.#stack.at(-1);
    if (typeof dict !== "object" || dict === null || Array.isArray(dict)) throw damaged();
    filled(dict as Dict, pairs);
  }

  #pop(): PickleData {
    const value = this.#stack.pop();
    if (value === undefined || value === MARK) throw damaged();
    return value;
  }

  #sinceMark(): PickleData[] {
    const values: PickleData[] = [];
    while (this.#stack.length > 0 && this.#stack.at(-1) !== MARK) values.push(this.#pop());
    if (this.#stack.pop() !== MARK) throw damaged();
    return values.reverse();
  }
}

/** `dict` with key, value, key, value, … */
function filled(dict: Dict, pairs: readonly PickleData[]): Dict {
  if (pairs.length % 2 !== 0) throw damaged();
  for (let i = 0; i < pairs.length; i += 2) {
    const key = pairs[i]!;
    if (typeof key !== "string") throw new PickleError("a dict in it has a key that is no text");
    // Not by assignment: a key may be "__proto__".
    Object.defineProperty(dict, key, { value: pairs[i + 1], enumerable: true, writable: true, configurable: true });
  }
  return dict;
}

/** Refuses a value that contains itself. One that stands in two places is fine. */
function requireTree(root: PickleData): void {
  const around = new Set<PickleData>();
  const seen = new Set<PickleData>();
  const path: { readonly value: PickleData; leave: boolean }[] = [{ value: root, leave: false }];
  for (let next = path.pop(); next !== undefined; next = path.pop()) {
    const { value, leave } = next;
    if (typeof value !== "object" || value === null) continue;
    if (leave) around.delete(value);
    else if (around.has(value)) throw new PickleError("it contains itself");
    else if (!seen.has(value)) {
      seen.add(value);
      around.add(value);
      path.push({ value, leave: true });
      for (const item of Object.values(value)) path.push({ value: item, leave: false });
    }
  }
}

function damaged(): PickleError {
  return new PickleError("it is damaged");
}
