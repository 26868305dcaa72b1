/**
 * Many streams at once on loopback, read as they come. A stream's chunks carry `@` and 16 digits: microseconds of the
 * monotonic clock when the chunk was made, which is the same clock for all processes of a machine.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

const DIGITS = 16;
const MARK = 0x40;
/** Connections that are being opened at a time. */
const OPENING = 64;
const SAMPLES_MAX = 2_000_000;

export interface StreamRequest {
  readonly port: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface StreamsSeen {
  /** Within the measured time. */
  readonly chunks: number;
  readonly seconds: number;
  /** From when a chunk was made until it was read here. */
  readonly delayP50Ms: number;
  readonly delayP99Ms: number;
}

/**
 * Opens all, waits until each has given a chunk, lets `settleMs` pass, and measures for `seconds`; the streams end by themselves
 * or are left behind. `begin` is called where the measured time begins, `end` where it ends. Throws when an answer is
 * not 200, or a stream ends before its time.
 */
export async function readStreams(
  requests: readonly StreamRequest[],
  { settleMs, seconds, begin, end }: { settleMs: number; seconds: number; begin(): void; end(): void },
): Promise<StreamsSeen> {
  const buffer = Buffer.alloc(64 * 1024);
  const delays = new Float64Array(SAMPLES_MAX);
  let chunks = 0;
  let measuring = false;
  let begun = 0;
  const sockets: Socket[] = [];
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  const all = Promise.withResolvers<void>();
  const open = (request: StreamRequest): Promise<unknown> => {
    let rest = Buffer.alloc(0);
    let seen = 0;
    let answered = false;
    const callback = (bytes: number): boolean => {
      const data = rest.length === 0 ? buffer.subarray(0, bytes) : Buffer.concat([rest, buffer.subarray(0, bytes)]);
      const now = nowUs();
      if (!answered && data.toString("latin1", 9, 12) !== "200") {
        failed.reject(new Error(`a stream was answered ${data.toString("latin1", 0, 400)}`));
      }
      answered = true;
      let at = data.indexOf(MARK);
      while (at !== -1 && at + DIGITS < data.length) {
        if (seen++ === 0 && ++begun === requests.length) all.resolve();
        if (measuring) delays[chunks++ % SAMPLES_MAX] = now - numberAt(data, at + 1);
        at = data.indexOf(MARK, at + DIGITS);
      }
      rest = at === -1 ? Buffer.alloc(0) : Buffer.from(data.subarray(at));
      return true;
    };
    const socket = connect({ port: request.port, host: "127.0.0.1", onread: { buffer, callback } });
    sockets.push(socket);
    socket.on("error", (error) => failed.reject(error));
    socket.on("close", () => failed.reject(new Error(`a stream ended after ${seen} chunks`)));
    socket.write(textOf(request));
    return once(socket, "connect");
  };
  try {
    for (let i = 0; i < requests.length; i += OPENING) {
      await Promise.race([Promise.all(requests.slice(i, i + OPENING).map(open)), failed.promise]);
    }
    await Promise.race([all.promise, failed.promise]);
    await Promise.race([pause(settleMs), failed.promise]);
    begin();
    measuring = true;
    const started = performance.now();
    await Promise.race([pause(seconds * 1000), failed.promise]);
    measuring = false;
    const took = (performance.now() - started) / 1000;
    end();
    const sorted = delays.subarray(0, Math.min(chunks, SAMPLES_MAX)).sort();
    const part = (p: number) => (sorted[Math.floor(p * sorted.length)] ?? Number.NaN) / 1000;
    return { chunks, seconds: took, delayP50Ms: part(0.5), delayP99Ms: part(0.99) };
  } finally {
    for (const socket of sockets) socket.removeAllListeners("close").destroy();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

function numberAt(data: Buffer, from: number): number {
  let value = 0;
  for (let at = from; at < from + DIGITS; at++) value = value * 10 + data[at]! - 0x30;
  return value;
}

function textOf({ port, method, path, headers, body }: StreamRequest): string {
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const length = method === "POST" ? `content-length: ${Buffer.byteLength(body)}\r\n` : "";
  return `${method} ${path} HTTP/1.1\r\n${lines.join("")}${length}\r\n${body}`;
}
