/** Every number that bounds something, with its unit in its name. `docs/reference/limits.md` lists them for readers. */

const KB = 1024;
const MB = 1024 * KB;

// Build and deploy
export const ARTIFACT_MAX_BYTES = 1_500_000_000;
export const WORKER_QUOTA = 30;
export const NAME_MAX_CHARS = 63;

// Endpoint settings
export const WORKERS_MIN_DEFAULT = 0;
export const WORKERS_MAX_DEFAULT = 3;
export const WORKERS_MAX_LIMIT = 1000;
export const IDLE_TIMEOUT_DEFAULT_S = 60;
export const IDLE_TIMEOUT_MIN_S = 1;
export const IDLE_TIMEOUT_MAX_S = 3600;
export const MAX_CONCURRENCY_DEFAULT = 1;
export const MAX_CONCURRENCY_LIMIT = 1000;
export const EXECUTION_TIMEOUT_DEFAULT_MS = 600_000;
export const EXECUTION_TIMEOUT_MIN_MS = 5_000;
export const EXECUTION_TIMEOUT_MAX_MS = 7 * 24 * 3_600_000;
export const SCALER_VALUE_DEFAULT = 4;

// Jobs
export const RUN_BODY_MAX_BYTES = 10 * MB;
export const RUNSYNC_BODY_MAX_BYTES = 20 * MB;
export const LOAD_BALANCED_BODY_MAX_BYTES = 30 * MB;
export const INLINE_BODY_MAX_BYTES = 64 * KB;
export const JOB_TTL_DEFAULT_MS = 24 * 3_600_000;
export const JOB_TTL_MIN_MS = 10_000;
export const JOB_TTL_MAX_MS = 7 * 24 * 3_600_000;
export const WAIT_MIN_MS = 1_000;
export const WAIT_DEFAULT_MS = 60_000;
export const WAIT_MAX_MS = 300_000;
export const STREAM_HOLD_MAX_MS = 8_000;
export const RUN_RETENTION_MS = 30 * 60_000;
export const RUNSYNC_RETENTION_MS = 60_000;
export const RUNSYNC_WAIT_RETENTION_MS = 5 * 60_000;
export const JOB_LOSSES_MAX = 1;
export const LEASE_MS = 15_000;
export const LEASE_RENEW_MS = 5_000;
export const REQUESTS_PAGE_SIZE = 100;

// Requests to load-balanced endpoints
export const REQUEST_TIMEOUT_MS = 60_000;

// Workers
export const FRAME_MAX_BYTES = 64 * MB;
export const WORKER_BOOT_TIMEOUT_MS = 120_000;
export const WORKER_DRAIN_GRACE_MS = 30_000;
export const CANCEL_GRACE_MS = 5_000;
export const BOOT_FAILURES_MAX = 5;
export const RECONNECT_MAX_MS = 600_000;
export const ZYGOTE_TTL_MS = 600_000;
export const LOG_LINE_MAX_BYTES = 16 * KB;

// Control plane
export const GRAPHQL_BODY_MAX_BYTES = 8 * MB;
export const PEER_CACHE_MS = 300_000;
export const LOCAL_PORT_DEFAULT = 8888;
export const PLATFORM_PORT_DEFAULT = 7878;
