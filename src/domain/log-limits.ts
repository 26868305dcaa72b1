/** Numbers that bound what is kept of what workers print. */

const KB = 1024;
const MB = 1024 * KB;

export const LOG_LINE_MAX_BYTES = 16 * KB;
export const LOG_FILE_MAX_BYTES = 8 * MB;
/** Lines of an endpoint that wait to be written: beyond the first, workers that print are not read from; beyond the second, lines are left out. */
export const LOG_PENDING_MAX_BYTES = 1 * MB;
export const LOG_PENDING_LAST_BYTES = 8 * MB;
/** Sent to one who follows a log and not taken by it: what comes beyond is left out. */
export const LOG_FOLLOWER_MAX_BYTES = 1 * MB;
export const LOG_TAIL_DEFAULT_LINES = 200;
export const LOG_TAIL_MAX_LINES = 100_000;
/** So many answers are put together at a time, in one process. */
export const LOG_READS_AT_ONCE = 8;
/** Of lines that are kept, in one answer. */
export const LOG_ANSWER_MAX_CHARS = 64 * MB;
/** Lines of a log that are looked at before other work of the platform gets its turn. */
export const LOG_LINES_AT_ONCE = 5_000;

// In a bucket
/** Text of one object; what comes then begins the next. */
export const LOG_CHUNK_MAX_BYTES = 1 * MB;
/** An object that grows is written again so often at most, */
export const LOG_CHUNK_WRITES_MAX = 100;
/** and it ends when nothing was added for this time. */
export const LOG_CHUNK_IDLE_MS = 600_000;
/** What was printed waits so long to be written to the bucket; it is looked for so often. */
export const LOG_CHUNK_WAIT_MS = 8_000;
export const LOG_CHUNK_LOOK_MS = 1_000;
/** Objects that are written, or deleted, at once. */
export const LOG_CHUNKS_AT_ONCE = 16;
/** Objects that are fetched ahead of the one that is looked through. */
export const LOG_CHUNKS_AHEAD = 4;
/** Rows of the index that are asked for at once. */
export const LOG_CHUNKS_PAGE = 256;
/** Text in memory, of one endpoint and of all: beyond it the oldest is left out while the bucket does not take it. */
export const LOG_HELD_MAX_BYTES = 4 * MB;
export const LOG_HELD_ALL_MAX_BYTES = 64 * MB;
/** Of it, another platform on the database is shown so much at once. */
export const LOG_HELD_SHOWN_MAX_BYTES = 8 * MB;
/** An endpoint with so much of it lets its workers that print wait for the bucket, for this time at most. */
export const LOG_HELD_WAIT_BYTES = 2 * MB;
export const LOG_HELD_WAIT_MS = 2_000;
/** Of one endpoint so much text, in so many objects, is kept in the bucket, and for so long unless SVC_LOG_RETENTION_S says otherwise. */
export const LOG_KEPT_MAX_BYTES = 64 * MB;
export const LOG_KEPT_CHUNKS_MAX = 4_096;
export const LOG_KEPT_MS = 30 * 24 * 3_600_000;
/** What that may say. */
export const LOG_KEPT_LEAST_MS = 3_600_000;
export const LOG_KEPT_MOST_MS = 10 * 365 * 24 * 3_600_000;
/** What is too old is looked for so often, and so are objects that no row names; those are deleted when they are older than this. */
export const LOG_SWEEP_MS = 3_600_000;
export const LOG_ORPHAN_MS = 3_600_000;
/** A platform that stops gives the bucket so long for the last lines. */
export const LOG_CLOSE_MAX_MS = 5_000;
