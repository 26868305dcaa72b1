/** Those of limits.ts that bound workers which pull their jobs over HTTP. Import them from there. */

/** A question for jobs, or for jobs to stop, is answered "none" after this time. Clients give up at 90 s. */
export const PULL_HOLD_MS = 75_000;
/** The same of a worker that is to leave, which looks whether it may at the end of each question. */
export const PULL_DRAIN_HOLD_MS = 1_000;
/** What a worker is told to give signs of life at. */
export const PULL_PING_MS = 15_000;
/** One that gave none for so long is replaced; a job that it did not list for so long is lost. */
export const PULL_SILENCE_MAX_MS = 35_000;
/** A worker is told to stop a job at most so often, until it does not list it any more, */
export const PULL_STOP_REPEAT_MS = 1_000;
/** and is replaced when that takes longer. */
export const PULL_STOP_GRACE_MS = 15_000;
/** Jobs that one worker may hold: it names them all in the URL of a sign of life. */
export const PULL_JOBS_MAX = 300;
/** Answers with a job that did not reach a worker one after the other; beyond that its jobs count as lost. */
export const PULL_UNRECEIVED_MAX = 3;
/** A worker's result, or a chunk of it. */
export const PULL_RESULT_MAX_BYTES = 64 * 1024 * 1024;
/** A question with a wrong token is answered after this time: such clients ask again at once. */
export const PULL_REFUSAL_DELAY_MS = 1_000;
