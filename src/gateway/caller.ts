/**
 * Notices that a caller has gone. A closed connection is seen at once; one whose sending side was closed may still be
 * read by its caller ("half-closed"), so we ask: an interim "100 Continue" is ignored by a caller that listens, and
 * answered with a reset by one that is gone.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { CALLER_PROBE_MS } from "../domain/limits.ts";

export class CallerWatch {
  readonly #open = new Set<AbortController>();

  /** Aborts when the caller has gone, or when all waiting is to end. */
  watch(req: IncomingMessage, res: ServerResponse): AbortSignal {
    const controller = new AbortController();
    const { socket } = req;
    let probe: NodeJS.Timeout | undefined;
    const onEnd = () => {
      probe = setInterval(() => {
        if (!res.headersSent && req.httpVersionMinor > 0) res.writeContinue();
      }, CALLER_PROBE_MS);
    };
    if (res.destroyed) {
      controller.abort();
      return controller.signal;
    }
    this.#open.add(controller);
    res.once("close", () => {
      this.#open.delete(controller);
      socket.off("end", onEnd);
      clearInterval(probe);
      if (!res.writableFinished) controller.abort();
    });
    if (socket.readableEnded) onEnd();
    else socket.once("end", onEnd);
    return controller.signal;
  }

  /** Of an upgraded connection, which has no answer that ends. */
  watchSocket(socket: Duplex): AbortSignal {
    const controller = new AbortController();
    if (socket.destroyed) {
      controller.abort();
      return controller.signal;
    }
    this.#open.add(controller);
    socket.once("close", () => {
      this.#open.delete(controller);
      controller.abort();
    });
    return controller.signal;
  }

  /** Ends all waiting: the platform shuts down. */
  abortAll(): void {
    for (const controller of this.#open) controller.abort();
  }
}
