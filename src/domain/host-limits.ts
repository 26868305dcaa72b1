/** Numbers that bound what the platform does with hosts, and what an agent may say. */

/** An agent that says nothing for so long is away: its link is closed, and those of its workers that are not connected themselves are counted out. */
export const HOST_SILENCE_MAX_MS = 15_000;
/** One that says nothing for so long gets no further worker, and a pool makes another Pod for those who wait. */
export const HOST_DOUBT_MS = 5_000;
/** Hosts are looked after this often. */
export const HOST_LOOK_MS = 1_000;
/** An agent answers a call within this time, */
export const HOST_CALL_MAX_MS = 15_000;
/** a start within this, */
export const HOST_START_MAX_MS = 60_000;
/** and tells of a preparation, or that it is done, each so often. */
export const HOST_PREPARE_SILENCE_MAX_MS = 1_800_000;
/** Calls of one host that wait for their answers. */
export const HOST_CALLS_MAX = 4_000;
/** What an agent's answer may have. */
export const HOST_ANSWER_MAX_BYTES = 1024 * 1024;
/** A list of an agent's workers, with their shares. */
export const HOST_STATE_MAX_BYTES = 8 * 1024 * 1024;
/** Links of one host that are open and wait for their workers; one that comes beyond that is closed, and its worker dials anew. */
export const HOST_AHEAD_MAX = 64;
/** Lines about itself that an agent gets into the platform's log within a minute. */
export const HOST_TOLD_PER_MINUTE_MAX = 30;
/** Clocks further apart than this are told. */
export const HOST_CLOCK_TOLD_MS = 5_000;

/** Between platforms that lend machines and those that borrow them. */
export const LEND_ASKS_MAX = 1_000;
export const LEND_UNSENT_MAX_BYTES = 64 * 1024 * 1024;
/** The end of a lent worker that is refused, as it is while nobody knows yet whose or where it is, is asked for again after so long, so often. */
export const LENT_STOP_AGAIN_MS = 1_000;
export const LENT_STOP_TRIES_MAX = 60;
export const LEND_PING_MS = 1_000;
export const LEND_SILENCE_MAX_MS = 6_000;
/** A worker that was started at most so long ago may get its row yet. */
export const ORPHAN_AGE_MIN_MS = 60_000;
/** What the other end of such a link may answer: it is another platform. */
export const LEND_ANSWER_MAX_BYTES = 16 * 1024 * 1024;
/** What a platform tells of its endpoints that hold workers or wait for room: so many, with so many workers, */
export const RIVALS_MAX = 1_000;
export const RIVAL_WORKERS_MAX = 10_000;
/** and images that are asked about. */
export const RIVAL_IMAGES_MAX = 1_000;
/** A platform that does not say it within this time is left out, and its workers stay where they are; */
export const RIVAL_SIDE_MAX_MS = 500;
/** whoever asks the one that puts it together waits for so long. */
export const RIVAL_ANSWER_MAX_MS = 1_500;
/** What it said holds for so long: whoever waits looks at every worker that becomes idle. */
export const RIVAL_KNOWN_MS = 200;
/** Whoever waits looks at least once a second: after so long without it nobody does. */
export const RIVALS_WAIT_MS = 2_500;
