/** Numbers that bound the agent of a host: the machine's end of a platform that it joined. */

const KB = 1024;
const MB = 1024 * KB;
const GB = 1024 * MB;

// The link
/** Dialled again after such a pause, which doubles up to the longest. */
export const AGENT_REDIAL_FIRST_MS = 200;
export const AGENT_REDIAL_MAX_MS = 5_000;
/** From the first byte until the platform has said who it is and whether this machine may come in. */
export const AGENT_GREETING_MAX_MS = 15_000;
/** What a platform's answer to the question where its hosts dial may have, and how long it may take. */
export const AGENT_DISCOVERY_MAX_BYTES = 16 * KB;
export const AGENT_DISCOVERY_MAX_MS = 15_000;
/** The platform's calls that are under way at once; more are refused. */
export const AGENT_CALLS_MAX = 4_000;
/** What is kept for the platform while the link is down: ends of workers, and of what they print so much; later lines are left out. */
export const AGENT_ENDS_KEPT_MAX = 10_000;
export const AGENT_BACKLOG_MAX_BYTES = 4 * MB;
/** The longest texts that a frame of the agent has room for. */
export const AGENT_REASON_MAX_CHARS = 4_000;
export const AGENT_MESSAGE_MAX_CHARS = 8_000;
export const AGENT_REPORT_MAX_CHARS = 2_000;
export const AGENT_TRACEBACK_MAX_CHARS = 8_000;
/** What a worker's environment may have, in a START of the platform. */
export const AGENT_START_ENV_MAX = 10_000;

// What is in use
/** Of the machine, measured and told so often. */
export const AGENT_USE_MS = 5_000;

// The end
/** Workers that run have so long to finish when the agent is told to end. */
export const AGENT_LEAVE_GRACE_MS = 30_000;
export const AGENT_LEAVE_POLL_MS = 50;

// Before it joins
/** Less free disk than this is no place for layers. */
export const AGENT_DISK_MIN_BYTES = 1 * GB;
/** Clocks further apart than the first are told, further than the second keep the machine out: tickets would be out of date. */
export const AGENT_CLOCK_TOLD_MS = 5_000;
export const AGENT_CLOCK_MAX_MS = 60_000;

// Layers
/** Larger layers come in parts of this size, so many at once. */
export const LAYER_PART_BYTES = 8 * MB;
export const LAYER_PARTS_AT_ONCE = 4;
/** While an image is prepared the platform hears of it so often. */
export const AGENT_REPORT_MS = 10_000;
/** Tries of one part, with a pause that doubles. */
export const LAYER_TRIES_MAX = 5;
export const LAYER_RETRY_FIRST_MS = 200;
/** A part has so long to begin and to arrive, and so long more for each megabyte of it. */
export const LAYER_ANSWER_MAX_MS = 30_000;
export const LAYER_MEGABYTE_MAX_MS = 60_000;
/** The bucket, where hosts may ask it, has so long to begin an answer; one that fails is not asked for this time. */
export const LAYER_BUCKET_ANSWER_MAX_MS = 5_000;
export const LAYER_BUCKET_PAUSE_MS = 60_000;
/** One layer, as on the platform. */
export const FETCHED_LAYER_MAX_BYTES = 64 * GB;
/** Layers fetched and kept packed, unless `--disk` says otherwise. */
export const FETCHED_LAYERS_KEPT_BYTES = 20 * GB;
