/** Those of limits.ts that bound requests of callers. Import them from there. */
const MB = 1024 * 1024;

// Rate limits of the job routes, per endpoint and window
export const RATE_WINDOW_MS = 10_000;
export const RATE_RUN_PER_WINDOW = 1000;
export const RATE_RUNSYNC_PER_WINDOW = 2000;
export const RATE_STATUS_PER_WINDOW = 2000;
export const RATE_STREAM_PER_WINDOW = 2000;
export const RATE_CANCEL_PER_WINDOW = 100;
export const RATE_PURGE_PER_WINDOW = 2;
export const RATE_REQUESTS_PER_WINDOW = 10;
/** Of one caller's address to one endpoint, without a key. */
export const RATE_PUBLIC_PER_WINDOW = 300;

// Signed URLs
export const SIGNED_URL_MAX_S = 7 * 24 * 3600;
/** Of path and query. */
export const SIGNED_PATH_MAX_CHARS = 4096;

// Connections of callers
export const HEADERS_ARRIVE_MAX_MS = 30_000;
export const REQUEST_ARRIVE_MAX_MS = 300_000;
export const ARRIVAL_CHECK_MS = 5_000;
export const KEEP_ALIVE_MS = 75_000;
export const REFUSED_BODY_DRAIN_MAX_MS = 5_000;
/** Who was told all has so long to close the connection, too. */
export const CONNECTION_END_MAX_MS = 5_000;
export const REFUSED_BODY_DRAIN_MAX_BYTES = 32 * MB;
export const BODIES_IN_FLIGHT_MAX_BYTES = 256 * MB;
/** Short ones that came with their heads have so much beyond that. */
export const BODIES_WHOLE_MAX_BYTES = 64 * MB;
/** Bodies of the management API in memory, and its answers above 64 KiB that their callers have not taken yet, in one process. */
export const MANAGEMENT_BODIES_MAX_BYTES = 64 * MB;
export const MANAGEMENT_ANSWERS_MAX_BYTES = 256 * MB;
/** While another finds no room, a body has so long to arrive, and a millisecond more for so many of its bytes; it is then refused. */
export const BODY_ARRIVES_MAX_MS = 5_000;
export const BODY_ARRIVES_BYTES_PER_MS = 1_000;
/** Answers above 64 KiB whose callers have not taken them yet, in one process that takes calls. */
export const ANSWERS_HELD_MAX_BYTES = 256 * MB;
/** A further one waits so long for room, and is then refused. */
export const ANSWER_ROOM_MAX_MS = 30_000;
/** While another waits, a caller has so long to take an answer, and a millisecond more for so many bytes; it is then cut off. */
export const ANSWER_TAKEN_MAX_MS = 5_000;
export const ANSWER_TAKEN_BYTES_PER_MS = 1_000;
export const CALLER_PROBE_MS = 250;
export const CLOSE_SWEEP_MS = 25;
export const CLOSE_LAST_ANSWERS_MS = 500;
export const IDEMPOTENCY_KEY_MAX_CHARS = 255;
export const METHOD_MAX_CHARS = 255;
export const WEBHOOK_MAX_CHARS = 2048;

// Gateway processes
export const GATEWAYS_MAX = 64;
/** One has so long to start, also to say that it cannot. */
export const GATEWAY_START_MAX_MS = 30_000;
/** One that ended by itself is replaced after this time, doubled each time up to the second; one that ran for longer than that at once. */
export const GATEWAY_RESTART_FIRST_MS = 100;
export const GATEWAY_RESTART_MAX_MS = 5_000;
/** It says that it has dropped what it knew of a key or an endpoint that changed, or is ended: the change waits no longer. */
export const GATEWAY_ACK_MAX_MS = 5_000;
/** One that says nothing for so long is ended; it is asked so often. */
export const GATEWAY_SILENCE_MAX_MS = 10_000;
export const GATEWAY_PING_MS = 2_000;
/** Without its link it answers its callers so long, and is then ended. */
export const GATEWAY_END_MAX_MS = 2_000;
/** What one has asked for and is not answered yet. */
export const GATEWAY_ASKS_MAX = 100_000;
/** Answers that one has not read; beyond that its link is cut. More than the large answers that one asks for. */
export const GATEWAY_UNSENT_MAX_BYTES = 512 * MB;
/** A larger output of a job that one waits for does not come with its end, but when there is room for it. */
export const GATEWAY_OUTPUT_MAX_BYTES = MB;
/** On the link, of one body: what may be sent ahead of its reader. */
export const GATEWAY_WINDOW_BYTES = 256 * 1024;
/** An end that sends so much beyond that is cut off. */
export const GATEWAY_EXCESS_MAX_BYTES = 4 * MB;
/** The largest frame of a worker's, with what is said of it. */
export const GATEWAY_FRAME_MAX_BYTES = 66 * MB;
/** Workers whose start is remembered for the timing of answers. */
export const GATEWAY_BOOTS_MAX = 1_000;

// Requests to load-balanced endpoints
export const REQUEST_TIMEOUT_MS = 60_000;
export const REQUEST_TIMEOUT_MIN_MS = 1_000;
export const REQUEST_TIMEOUT_MAX_MS = 3_600_000;
/** A browser asks again before a call after this time. */
export const CORS_PREFLIGHT_MAX_AGE_S = 600;
