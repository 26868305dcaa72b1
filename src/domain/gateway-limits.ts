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
export const REFUSED_BODY_DRAIN_MAX_BYTES = 32 * MB;
export const BODIES_IN_FLIGHT_MAX_BYTES = 256 * MB;
export const CALLER_PROBE_MS = 250;
export const CLOSE_SWEEP_MS = 25;
export const CLOSE_LAST_ANSWERS_MS = 500;
export const IDEMPOTENCY_KEY_MAX_CHARS = 255;
export const METHOD_MAX_CHARS = 255;
export const WEBHOOK_MAX_CHARS = 2048;

// Requests to load-balanced endpoints
export const REQUEST_TIMEOUT_MS = 60_000;
export const REQUEST_TIMEOUT_MIN_MS = 1_000;
export const REQUEST_TIMEOUT_MAX_MS = 3_600_000;
/** A browser asks again before a call after this time. */
export const CORS_PREFLIGHT_MAX_AGE_S = 600;
