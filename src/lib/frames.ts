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

/** A frame that is to be sent. Its bytes are made when it leaves, those of several in one piece. */
export class OutgoingFrame {
  readonly bytes: number;
  readonly #type: number;
  readonly #flags: number;
  readonly #channel: number;
  readonly #head: string;
  readonly #headBytes: number;
  readonly #body: Uint8Array;

  /** `head` undefined is the empty head. */
  constructor(type: number, channel: number, head?: object | string, body: Uint8Array = EMPTY, flags = 0) {
    this.#type = type;
    this.#flags = flags;
    this.#channel = channel;
    this.#head = head === undefined ? "" : typeof head === "string" ? head : JSON.stringify(head);
    this.#headBytes = Buffer.byteLength(this.#head);
    if (this.#headBytes > 0xffff) throw new FrameError(`frame head of ${this.#headBytes} bytes is too long`);
    this.#body = body;
    this.bytes = PREFIX_BYTES + this.#headBytes + body.byteLength;
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

/** Cuts a byte stream into frames. Throws FrameError on a length outside the bounds: the link must be closed. */
export class FrameReader {
  /** A longer frame is an error. */
  maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** The frames completed by `chunk`, in order. Of those before it no more is copied than the frame that it completes. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let bytes = chunk;
    if (this.#buffered > 0) {
      this.#chunks.push(chunk);
      this.#buffered += chunk.length;
      if (this.#buffered < 4) return frames;
      const needed = this.#needed();
      if (this.#buffered < needed) return frames;
      frames.push(cut(Buffer.concat(this.#chunks, needed), 0, needed - 4));
      bytes = chunk.subarray(chunk.length - (this.#buffered - needed));
    }
    let start = 0;
    while (bytes.length - start >= 4) {
      const length = bytes.readUInt32BE(start);
      this.#check(length);
      if (bytes.length - start < 4 + length) break;
      frames.push(cut(bytes, start, length));
      start += 4 + length;
    }
    this.#buffered = bytes.length - start;
    this.#chunks = this.#buffered === 0 ? [] : [start === 0 ? bytes : bytes.subarray(start)];
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

function cut(bytes: Buffer, start: number, length: number): Frame {
  const headLength = bytes.readUInt16BE(start + 6);
  if (8 + headLength > length) throw new FrameError("frame head is longer than its frame");
  const bodyStart = start + PREFIX_BYTES + headLength;
  return {
    type: bytes[start + 4]!,
    flags: bytes[start + 5]!,
    channel: bytes.readUInt32BE(start + 8),
    headBytes: bytes.subarray(start + PREFIX_BYTES, bodyStart),
    body: bytes.subarray(bodyStart, start + 4 + length),
  };
}
