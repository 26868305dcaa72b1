import { SvcError } from "./errors.ts";

/** Which endpoints this platform runs dispatch, workers and scaling for; those of other shards are other platforms'. */
export type IsMine = (endpointId: string) => boolean;

/** Of a platform that is alone. */
export const ALL_MINE: IsMine = () => true;

/** Told to who asks for an endpoint that is another platform's: that one is asked next. */
export function movedAway(what: string): SvcError {
  return new SvcError("MOVED", `The jobs of ${what} are kept by another replica now.`, {
    help: "Try again in a moment.",
  });
}

/** Of a platform that has all, and gives nothing away. */
export const ALONE: { readonly isMine: IsMine; readonly isLeaving: IsMine } = {
  isMine: ALL_MINE,
  isLeaving: () => false,
};

/**
 * `ask`, of endpoints that are this platform's. Of others nothing is in memory here, and what is counted there would be nothing at all:
 * whoever asks is sent to the one that has it.
 */
export function ofMine<T>(isMine: IsMine, ask: (endpointId: string) => T | Promise<T>) {
  return async (endpointId: string): Promise<T> => {
    if (!isMine(endpointId)) throw movedAway(endpointId);
    return ask(endpointId);
  };
}
