/**
 * Length-prefixed frames: u32 length | u8 type | u8 flags | u16 head length | u32 channel | head | body.
 * Described in docs/reference/protocol.md. Bodies are handed on as they are.
 */

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

/** The bytes of one frame; `head` undefined is the empty head. */
export function encodeFrame(
  type: number,
  channel: number,
  head?: object | string,
  body: Uint8Array = EMPTY,
  flags = 0,
): Buffer[] {
  const headText = head === undefined ? "" : typeof head === "string" ? head : JSON.stringify(head);
  const headLength = Buffer.byteLength(headText);
  if (headLength > 0xffff) throw new FrameError(`frame head of ${headLength} bytes is too long`);
  const prefix = Buffer.allocUnsafe(PREFIX_BYTES + headLength);
  prefix.writeUInt32BE(8 + headLength + body.byteLength, 0);
  prefix[4] = type;
  prefix[5] = flags;
  prefix.writeUInt16BE(headLength, 6);
  prefix.writeUInt32BE(channel, 8);
  if (headLength > 0) prefix.write(headText, PREFIX_BYTES);
  return body.byteLength === 0 ? [prefix] : [prefix, Buffer.from(body.buffer, body.byteOffset, body.byteLength)];
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

/** Cuts a byte stream into frames. Throws FrameError on a length outside the bounds: the link must be closed. */
export class FrameReader {
  /** A longer frame is an error. */
  maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The frames completed by `chunk`, in order. */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    const frames: Frame[] = [];
    if (this.#buffered < 4) return frames;
    if (this.#chunks.length > 1 && this.#buffered < this.#needed()) return frames;
    let bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks, this.#buffered);
    while (bytes.length >= 4) {
      const length = bytes.readUInt32BE(0);
      this.#check(length);
      if (bytes.length < 4 + length) break;
      frames.push(cut(bytes, length));
      bytes = bytes.subarray(4 + length);
    }
    this.#chunks = bytes.length > 0 ? [bytes] : [];
    this.#buffered = bytes.length;
    return frames;
  }

  /** Bytes needed before the first frame is whole; avoids joining a large body's chunks again and again. */
  #needed(): number {
    const first = this.#chunks[0]!;
    const start = first.length >= 4 ? first : Buffer.concat(this.#chunks, this.#buffered);
    const length = start.readUInt32BE(0);
    this.#check(length);
    return 4 + length;
  }

  #check(length: number): void {
    if (length < 8 || length > this.maxBytes) throw new FrameError(`frame length ${length} is out of bounds`);
  }
}

function cut(bytes: Buffer, length: number): Frame {
  const headLength = bytes.readUInt16BE(6);
  if (8 + headLength > length) throw new FrameError("frame head is longer than its frame");
  const bodyStart = PREFIX_BYTES + headLength;
  return {
    type: bytes[4]!,
    flags: bytes[5]!,
    channel: bytes.readUInt32BE(8),
    headBytes: bytes.subarray(PREFIX_BYTES, bodyStart),
    body: bytes.subarray(bodyStart, 4 + length),
  };
}
