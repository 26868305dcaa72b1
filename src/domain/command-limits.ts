/** Those of limits.ts that bound what the command line does. Import them from there. */
// Command line
export const PLATFORM_START_TIMEOUT_MS = 60_000;
export const DEPLOY_READY_MAX_MS = 30 * 60_000;
/** `svc platform status` waits so long for what a platform says itself. */
export const STATUS_ANSWER_MAX_MS = 5_000;
export const DRAIN_WAIT_MAX_MS = 15 * 60_000;
export const CONNECT_MAX_MS = 10_000;
/** A shell waits for the names that it completes. */
export const COMPLETION_MAX_MS = 1_000;
/** svc/client: one long poll, and how long an answer may take beyond it. */
export const CLIENT_POLL_MS = 30_000;
export const CLIENT_ANSWER_MAX_MS = 30_000;
/** svc/client: a request's body is given a millisecond more for so many of its characters. */
export const CLIENT_SLOWEST_CHARS_PER_MS = 16;
/** svc/client, svc call for its job, and who follows logs: a platform that answered before and is away is looked for so long, with pauses that double. */
export const CLIENT_PATIENCE_MS = 60_000;
export const CLIENT_RETRY_PAUSE_MS = 100;
export const CLIENT_RETRY_PAUSE_MAX_MS = 2_000;
/** Local ports of a preview's endpoints: below those that systems hand out by themselves. */
export const PREVIEW_PORT_FIRST = 20_000;
export const PREVIEW_PORTS = 10_000;
/** A preview's platform has so long to end by itself. */
export const PREVIEW_STOP_MAX_MS = 10_000;
/** How long the container engine may take for its answer to a first question. */
export const ENGINE_ANSWER_MAX_MS = 10_000;
/** svc top: how often it looks, and how many decisions it shows. */
export const TOP_REFRESH_MS = 2_000;
export const TOP_DECISIONS = 4;
export const POLL_FIRST_MS = 25;
export const POLL_MAX_MS = 1_000;
