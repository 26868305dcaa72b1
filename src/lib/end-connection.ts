/** How a connection of which nothing more is wanted ends, whatever its peer does. */
import type { Duplex } from "node:stream";

/**
 * Sends `last` and the end behind it. What still comes is dropped, but read: a connection that nobody reads never shows that its
 * peer is gone, and its descriptor stays for ever. So does that of a peer who never closes; it is cut after `maxMs`.
 */
export function endConnection(socket: Duplex, maxMs: number, last?: string): void {
  const late = setTimeout(() => socket.destroy(), maxMs).unref();
  socket.once("close", () => clearTimeout(late));
  socket.end(last);
  socket.unpipe().resume();
}
