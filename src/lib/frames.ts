/**
 * Length-prefixed frames: u32 length | u8 type | u8 flags | u16 head length | u32 channel | head | body.
 * Described in docs/reference/protocol.md. Bodies are handed on as they are.
 */
import { freeBuffer, freeBytes } from "./free-bytes.ts";

const PREFIX_BYTES = 12;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly channel: number;
  /** JSON bytes; read only where they are needed. */
  readonly headBytes: Buffer;
  readonly body: Buffer;
}

export class FrameError extends Error {
  override name = "FrameError";
}

const EMPTY = Buffer.alloc(0);

/** A frame that is to be sent. Its bytes are made when it leaves, those of several in one piece. */
export class OutgoingFrame {
  readonly bytes: number;
  /** Its body is nobody's any more when it has left, nor is the rest of its buffer. */
  readonly #freesBody: boolean;
  readonly #type: number;
  readonly #flags: number;
  readonly #channel: number;
  readonly #head: string;
  readonly #headBytes: number;
  readonly #body: Uint8Array;

  /** `head` undefined is the empty head. */
  constructor(
    type: number,
    channel: number,
    head?: object | string,
    body: Uint8Array = EMPTY,
    flags = 0,
    freesBody = false,
  ) {
    this.#freesBody = freesBody;
    this.#type = type;
    this.#flags = flags;
    this.#channel = channel;
    this.#head = head === undefined ? "" : typeof head === "string" ? head : JSON.stringify(head);
    this.#headBytes = Buffer.byteLength(this.#head);
    if (this.#headBytes > 0xffff) throw new FrameError(`frame head of ${this.#headBytes} bytes is too long`);
    this.#body = body;
    this.bytes = PREFIX_BYTES + this.#headBytes + body.byteLength;
  }

  /** It has left. */
  get left(): (() => void) | undefined {
    return this.#freesBody ? () => freeBuffer(this.#body) : undefined;
  }

  /** Puts it at `start`; gives its end. */
  copyTo(target: Buffer, start: number): number {
    const end = this.#startTo(target, start);
    target.set(this.#body, end);
    return end + this.#body.byteLength;
  }

  /** Without a copy of its body. */
  parts(): Buffer[] {
    const start = Buffer.allocUnsafe(PREFIX_BYTES + this.#headBytes);
    this.#startTo(start, 0);
    const body = this.#body;
    return body.byteLength === 0 ? [start] : [start, Buffer.from(body.buffer, body.byteOffset, body.byteLength)];
  }

  #startTo(target: Buffer, start: number): number {
    target.writeUInt32BE(this.bytes - 4, start);
    target[start + 4] = this.#type;
    target[start + 5] = this.#flags;
    target.writeUInt16BE(this.#headBytes, start + 6);
    target.writeUInt32BE(this.#channel, start + 8);
    if (this.#headBytes > 0) target.write(this.#head, start + PREFIX_BYTES);
    return start + PREFIX_BYTES + this.#headBytes;
  }
}

/** The bytes of one frame. */
export function encodeFrame(...frame: ConstructorParameters<typeof OutgoingFrame>): Buffer[] {
  return new OutgoingFrame(...frame).parts();
}

export function parseHead<T>(frame: Frame): T {
  if (frame.headBytes.length === 0) return {} as T;
  try {
    return JSON.parse(frame.headBytes.toString("utf8")) as T;
  } catch {
    throw new FrameError(`frame of type ${frame.type} has a head that is not JSON`);
  }
}

/** The head as `check` gives it back. Throws FrameError when it is not JSON or `check` throws. */
export function readHead<T>(frame: Frame, check: (head: unknown) => T): T {
  try {
    return check(parseHead<unknown>(frame));
  } catch (error) {
    if (error instanceof FrameError) throw error;
    throw new FrameError(`the head of a frame of type ${frame.type} is wrong: ${(error as Error).message}`);
  }
}

/**
 * Cuts a byte stream into frames. Throws FrameError on a length outside the bounds: the link must be closed. A frame that comes in parts
 * is put together where it will lie, and a chunk in which nothing lies any more is freed: what is pushed belongs to the reader.
 */
export class FrameReader {
  /** A longer frame is an error. */
  maxBytes: number;
  /** Of a prefix that is not whole. */
  #start: Buffer = EMPTY;
  #coming: Coming | undefined;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The frames completed by `chunk`, in order. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    const bytes = this.#start.length === 0 ? chunk : Buffer.concat([this.#start, chunk]);
    let start = 0;
    if (this.#coming !== undefined) {
      start = this.#coming.take(bytes, 0);
      if (this.#coming.isWhole) {
        frames.push(this.#coming);
        this.#coming = undefined;
      }
    }
    let isCopied = true;
    while (bytes.length - start >= PREFIX_BYTES) {
      const length = this.#lengthAt(bytes, start);
      const end = start + 4 + length;
      if (end > bytes.length) {
        this.#coming = new Coming(bytes, start, length);
        start += PREFIX_BYTES + this.#coming.take(bytes, start + PREFIX_BYTES);
        break;
      }
      frames.push(cut(bytes, start, length));
      isCopied = false;
      start = end;
    }
    this.#start = start === bytes.length ? EMPTY : Buffer.from(bytes.subarray(start));
    if (this.#start.length >= 4) this.#lengthAt(this.#start, 0);
    if (isCopied) freeBytes(chunk);
    return frames;
  }

  /** What has come of a frame that is not whole. */
  get rest(): Buffer {
    return this.#coming?.begun ?? this.#start;
  }

  #lengthAt(bytes: Buffer, start: number): number {
    const length = bytes.readUInt32BE(start);
    if (length < 8 || length > this.maxBytes) throw new FrameError(`frame length ${length} is out of bounds`);
    return length;
  }
}

/** A frame whose prefix has come, and not yet all of the rest. */
class Coming implements Frame {
  readonly type: number;
  readonly flags: number;
  readonly channel: number;
  readonly headBytes: Buffer;
  readonly body: Buffer;
  #filled = 0;

  constructor(bytes: Buffer, start: number, length: number) {
    const headLength = headLengthAt(bytes, start, length);
    this.type = bytes[start + 4]!;
    this.flags = bytes[start + 5]!;
    this.channel = bytes.readUInt32BE(start + 8);
    this.headBytes = Buffer.allocUnsafe(headLength);
    this.body = Buffer.allocUnsafe(length - 8 - headLength);
  }

  get isWhole(): boolean {
    return this.#filled === this.headBytes.length + this.body.length;
  }

  /** As it came, so far. */
  get begun(): Buffer {
    const { type, flags, channel, headBytes, body } = this;
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt32BE(8 + headBytes.length + body.length, 0);
    prefix[4] = type;
    prefix[5] = flags;
    prefix.writeUInt16BE(headBytes.length, 6);
    prefix.writeUInt32BE(channel, 8);
    return Buffer.concat([prefix, Buffer.concat([headBytes, body]).subarray(0, this.#filled)]);
  }

  /** Copies what there is of it from `start` on; gives the number of bytes. */
  take(bytes: Buffer, start: number): number {
    const { headBytes, body } = this;
    let taken = 0;
    if (this.#filled < headBytes.length) taken = bytes.copy(headBytes, this.#filled, start);
    const inBody = this.#filled + taken - headBytes.length;
    if (inBody >= 0) taken += bytes.copy(body, inBody, start + taken);
    this.#filled += taken;
    return taken;
  }
}

function cut(bytes: Buffer, start: number, length: number): Frame {
  const bodyStart = start + PREFIX_BYTES + headLengthAt(bytes, start, length);
  return {
    type: bytes[start + 4]!,
    flags: bytes[start + 5]!,
    channel: bytes.readUInt32BE(start + 8),
    headBytes: bytes.subarray(start + PREFIX_BYTES, bodyStart),
    body: bytes.subarray(bodyStart, start + 4 + length),
  };
}

function headLengthAt(bytes: Buffer, start: number, length: number): number {
  const headLength = bytes.readUInt16BE(start + 6);
  if (8 + headLength > length) throw new FrameError("frame head is longer than its frame");
  return headLength;
}
