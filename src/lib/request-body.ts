/** The body of a request that is refused: whether something of it is still to come, and where that goes. */
import type { IncomingMessage } from "node:http";

export function hasBody(req: IncomingMessage): boolean {
  const length = req.headers["content-length"];
  return (length !== undefined && length !== "0") || req.headers["transfer-encoding"] !== undefined;
}

/** The declared length, or undefined when the body is chunked. */
export function declaredBytes(req: IncomingMessage): number | undefined {
  if (req.headers["transfer-encoding"] !== undefined) return undefined;
  return Number(req.headers["content-length"] ?? 0);
}

/**
 * Throws away what is still to come of a body that nobody wants; then calls `done` once. Past the bound in bytes it is left
 * in the network instead: a caller that cannot send on looks for its answer, which a closed connection could take from it.
 */
export function drain(
  req: IncomingMessage,
  { maxBytes, maxMs }: { maxBytes: number; maxMs: number },
  done: () => void,
) {
  let bytes = 0;
  const stop = () => {
    clearTimeout(timer);
    req.off("data", onData).off("end", stop).off("close", stop);
    done();
  };
  const timer = setTimeout(stop, maxMs);
  const onData = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxBytes) req.pause();
  };
  req.on("data", onData).once("end", stop).once("close", stop).resume();
}
