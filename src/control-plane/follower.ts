/** Answers that stay open and carry what is new. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { FOLLOWER_CHECK_MS } from "../domain/limits.ts";

/**
 * Ends such an answer when nobody follows any more: the caller has gone or has closed its sending side, or the platform ends.
 * Now and then `look` is called; the answer ends when it rejects.
 */
export function endWithFollower(
  request: IncomingMessage,
  response: ServerResponse,
  closing: AbortSignal,
  look: () => Promise<unknown>,
): void {
  const { socket } = request;
  const end = () => {
    response.end();
  };
  if (closing.aborted || socket.readableEnded) end();
  // Connections may be half-closed here (src/gateway/server.ts): who follows has nothing more to say, and would not be missed.
  socket.once("end", end);
  closing.addEventListener("abort", end, { once: true });
  const timer = setInterval(() => look().catch(end), FOLLOWER_CHECK_MS);
  response.once("close", () => {
    socket.off("end", end);
    closing.removeEventListener("abort", end);
    clearInterval(timer);
  });
}
