/** Requests with large bodies on loopback, so many at a time until a number of them is answered: nothing is cut off by a clock. */
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Target } from "./load.ts";

const ANSWER_MAX_MS = 60_000;
/** Who is asked to come back does so. */
const TOO_MANY = "429";
const AGAIN_MS = 50;

/** Where each request has letters of its own, so that no two bodies are the same. */
const STAMP = { at: 64, bytes: 16 };
let stamps = 0;

/**
 * Seconds that it took, and how often a caller was told to come back. Throws when an answer is not 200 or has fewer bytes than
 * the body of the request.
 */
export async function sendBodies(target: Target, requests: number, atOnce: number) {
  const { hostname, port, pathname } = new URL(target.url);
  const body = Buffer.from(target.body);
  const headers = {
    host: `${hostname}:${port}`,
    ...target.headers,
    "content-length": body.length,
    connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${target.method} ${pathname} HTTP/1.1\r\n${lines.join("")}\r\n`);
  let left = requests;
  let refused = 0;
  const started = performance.now();
  const caller = async () => {
    const buffer = Buffer.alloc(256 * 1024);
    while (left-- > 0) {
      for (;;) {
        const stamp = Buffer.from((++stamps).toString(36).padStart(STAMP.bytes, "s"));
        const stamped = [head, body.subarray(0, STAMP.at), stamp, body.subarray(STAMP.at + STAMP.bytes)];
        const { status, received } = await exchange(Number(port), hostname, stamped, buffer);
        if (status === "200" && received >= body.length) break;
        if (status !== TOO_MANY) {
          throw new Error(`a body of ${body.length} bytes was answered ${status || "nothing"} with ${received} bytes`);
        }
        refused += 1;
        await delay(AGAIN_MS);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, caller));
  return { seconds: (performance.now() - started) / 1000, refused };
}

async function exchange(port: number, host: string, request: readonly Buffer[], buffer: Buffer) {
  let received = 0;
  let status = "";
  const callback = (bytes: number): boolean => {
    if (received === 0) status = buffer.toString("latin1", 9, 12);
    received += bytes;
    return true;
  };
  const socket = connect({ port, host, onread: { buffer, callback } });
  socket.setTimeout(ANSWER_MAX_MS, () => socket.destroy());
  socket.cork();
  for (const part of request) socket.write(part);
  socket.uncork();
  // One that is refused in the middle of its body may see the connection reset behind the answer.
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("close", resolve));
  return { status, received };
}
