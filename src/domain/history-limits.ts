/** Those of limits.ts that bound what is recorded of the past. Import them from there. */
const MB = 1024 * 1024;

// Series: steps, and how many of each are kept
export const SERIES_STEP_MS = 10_000;
export const SERIES_STEPS_KEPT = 360;
export const SERIES_MINUTE_MS = 60_000;
export const SERIES_MINUTES_KEPT = 2 * 24 * 60;
export const SERIES_QUARTER_MS = 900_000;
export const SERIES_QUARTERS_KEPT = 90 * 24 * 4;
/** Of all series on the disk: beyond it the oldest steps go before their time. */
export const SERIES_MAX_BYTES = 1024 * MB;
/** Points of one answer; a step that would give more is made longer. */
export const SERIES_POINTS_MAX = 2_000;
/** Points that a query gets which names no step, about. */
export const SERIES_POINTS_DEFAULT = 300;
/** Routes of one endpoint that are told apart; the others count as one. */
export const SERIES_ROUTES_MAX = 50;
/** Machines that joined of which series are recorded, by id; of further ones only the sum over all is. */
export const SERIES_HOSTS_MAX = 200;
/** Rows that are read or written before other work of the platform gets its turn. */
export const HISTORY_ROWS_AT_ONCE = 200;
/** What waits for the history's file is written so often, in one transaction; */
export const HISTORY_WRITE_MS = 1_000;
/** so many changes wait at most, then the oldest are left out. */
export const HISTORY_PENDING_MAX = 10_000;

// Metrics for Prometheus
/** Endpoints with lines of their own; all others are one, "other". */
export const METRICS_ENDPOINTS_MAX = 100;
/** One on which nothing has happened for so long gives its lines to another. */
export const METRICS_IDLE_MS = 3_600_000;
/** A scrape that comes sooner after another gets the same answer. */
export const METRICS_FRESH_MS = 1_000;

// How busy GPUs are
/** nvidia-smi is asked again after so long, by the next reader; */
export const GPU_SAMPLE_MS = 5_000;
/** ended when it takes longer than this; */
export const GPU_SAMPLE_MAX_MS = 5_000;
/** and when it says more than this. */
export const GPU_OUTPUT_MAX_BYTES = 64 * 1024;
/** What it said counts for so long. */
export const GPU_FRESH_MS = 30_000;

// Followers of GET /events
export const EVENT_FOLLOWERS_MAX = 200;
/** Sent to one and not taken by it: what comes beyond is left out. */
export const EVENT_FOLLOWER_MAX_BYTES = 1 * MB;
/** Events of single jobs that one gets in a second. */
export const EVENT_JOBS_PER_S = 100;

// Traces
/** Jobs on their way that spans are kept of; beyond it the oldest lose theirs. */
export const TRACED_JOBS_MAX = 10_000;
/** A platform that stops waits so long for the last spans to be sent. */
export const TRACES_CLOSE_MAX_MS = 2_000;
