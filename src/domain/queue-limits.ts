/** Those of limits.ts that bound the queue on PostgreSQL. Import them from there. */
/** A statement that is not answered for so long is sent again on another connection. */
export const QUEUE_SILENCE_MAX_MS = 60_000;
/** So often bodies that no row names are looked for, so many at a time. */
export const BODY_SWEEP_MS = 6 * 3_600_000;
export const BODY_SWEEP_NAMES = 1_000;
/** Changes that are one statement: so many, and about so large. */
export const QUEUE_BATCH_MAX_ITEMS = 1_000;
export const QUEUE_BATCH_MAX_BYTES = 8 * 1024 * 1024;
/** A job whose caller waits may run before it is stored when those of its endpoint take less on average, */
export const EARLY_RUN_MAX_MS = 2;
/** and its batch waits so long for its end. */
export const EARLY_WAIT_MS = 2;
/** So many batches write counts to the journal before they are written to the endpoints' rows. */
export const QUEUE_FOLD_BATCHES = 500;
/** Inputs of jobs that wait, over all endpoints, kept at hand. */
export const QUEUE_HEADS_MAX_BYTES = 64 * 1024 * 1024;
/** Texts of statements that are kept, one for each combination of changes that a batch had. */
export const QUEUE_TEXTS_MAX = 256;
