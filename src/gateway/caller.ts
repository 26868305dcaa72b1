/**
 * Notices that a caller has gone. A closed connection is seen at once; one whose sending side was closed may still be
 * read by its caller ("half-closed"), so we ask: an interim "100 Continue" is ignored by a caller that listens, and
 * answered with a reset by one that is gone.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { SvcError } from "../domain/errors.ts";
import { CALLER_PROBE_MS } from "../domain/limits.ts";
import { Departure } from "../domain/request.ts";
import { CallerGone } from "./body.ts";

export class CallerWatch {
  readonly #open = new Set<Departure>();

  /** Of a caller who waits for an answer. It has gone also when all waiting is to end. */
  follow(req: IncomingMessage, res: ServerResponse): Departure {
    const departure = new Departure();
    const { socket } = req;
    let probe: NodeJS.Timeout | undefined;
    const onEnd = () => {
      probe = setInterval(() => {
        if (!res.headersSent && req.httpVersionMinor > 0) res.writeContinue();
      }, CALLER_PROBE_MS);
    };
    if (res.destroyed) {
      departure.gone();
      return departure;
    }
    this.#open.add(departure);
    res.once("close", () => {
      this.#open.delete(departure);
      socket.off("end", onEnd);
      clearInterval(probe);
      if (!res.writableFinished) departure.gone();
    });
    if (socket.readableEnded) onEnd();
    else socket.once("end", onEnd);
    return departure;
  }

  /** The same for those who wait by a signal. */
  watch(req: IncomingMessage, res: ServerResponse): AbortSignal {
    const controller = new AbortController();
    const departure = this.follow(req, res);
    if (departure.hasGone) controller.abort();
    departure.onGone = () => controller.abort();
    return controller.signal;
  }

  /** Of an upgraded connection, which has no answer that ends. */
  followSocket(socket: Duplex): Departure {
    const departure = new Departure();
    if (socket.destroyed) {
      departure.gone();
      return departure;
    }
    this.#open.add(departure);
    socket.once("close", () => {
      this.#open.delete(departure);
      departure.gone();
    });
    return departure;
  }

  /** Ends all waiting: the platform shuts down. */
  endAll(): void {
    for (const departure of this.#open) departure.gone();
  }
}

/** Why nobody waits any more. */
export function leftBehind({ closing }: { readonly closing: boolean }): Error {
  return closing ? new SvcError("SHUTTING_DOWN", "The platform is shutting down.") : new CallerGone();
}
