/** Those of limits.ts that bound what is kept and shown of what happened. Import them from there. */
/** Of the type, the place and the message that errors are grouped by. */
export const ERROR_KIND_MAX_CHARS = 300;
/** Of what is kept of a failed one's error. */
export const EXPIRED_ERROR_MAX_CHARS = 300;
/** Jobs that one page of a search looks at, and how many of them before the queue gets its turn. */
export const SEARCH_ROWS_MAX = 200_000;
export const SEARCH_WINDOW_ROWS = 1_000;
/** A search by endpoint and state goes through so many indexes at most; beyond that it goes through the jobs themselves. */
export const SEARCH_STREAMS_MAX = 40;
/** So many jobs whose ids begin alike are taken from the index of ids. */
export const SEARCH_IDS_MAX = 256;
/** A clock that was set back by no more than that hides no job from a search by time. */
export const SEARCH_CLOCK_SLACK_MS = 60_000;

/** The audit log: how long, and how many entries of acts and of refused tries. */
export const AUDIT_KEPT_MS = 366 * 24 * 3_600_000;
export const AUDIT_KEPT_MAX = 100_000;
export const AUDIT_REFUSED_KEPT_MAX = 10_000;
export const AUDIT_TEXT_MAX_CHARS = 500;
/** Refused tries of one caller become one entry in this time, and those of all callers at most so many. */
export const AUDIT_REFUSED_EVERY_MS = 60_000;
export const AUDIT_REFUSED_PER_WINDOW_MAX = 60;
/** Records of deploys, over all environments. */
export const DEPLOYS_KEPT_MS = 366 * 24 * 3_600_000;
export const DEPLOYS_KEPT_MAX = 10_000;
/** Lines about what one deploy changed. */
export const DEPLOY_CHANGES_KEPT_MAX = 200;
/** Of what one query of the management API lists. */
export const RECORDS_PAGE_MAX = 500;
/** How often records are looked through for those that were kept long enough. */
export const RECORDS_SWEEP_MS = 600_000;

/** The load of an endpoint that svc top shows: over what time, and how long it is not worked out again. */
export const LOAD_SPAN_MS = 300_000;
export const LOAD_CACHED_MS = 5_000;

/** In the history's file: requests and decisions over all endpoints, */
export const REQUESTS_KEPT_MAX = 100_000;
export const DECISIONS_KEPT_MAX = 100_000;
/** decisions and kinds of errors of one endpoint, and how long errors are counted. */
export const DECISIONS_PER_ENDPOINT_MAX = 5_000;
export const ERROR_KINDS_PER_ENDPOINT_MAX = 200;
export const ERRORS_KEPT_MS = 30 * 24 * 3_600_000;
/** What is written of one second: requests that were answered, as many that failed, and failures whose cause is looked at. */
export const REQUESTS_PER_WRITE_MAX = 1_000;
export const FAILURES_PER_WRITE_MAX = 1_000;
export const RECORD_PATH_MAX_CHARS = 300;
/** Rows that a list looks at before the platform has its turn. */
export const RECORD_WINDOW_ROWS = 2_000;
/** Decisions between two looks for those of one endpoint that are too many. */
export const RECORDS_TRIM_EVERY = 1_000;

/** Alerts of a platform, how often they look, and after how many looks in a row they fire and clear. */
export const ALERTS_MAX = 100;
export const ALERT_CHECK_MS = 10_000;
export const ALERT_FIRES_AFTER_CHECKS = 2;
export const ALERT_CLEARS_AFTER_CHECKS = 3;
/** Fewer jobs or requests than that in the last minutes have no error rate. */
export const ALERT_ERRORS_MIN = 10;
/** Named in one message, and messages that wait for their delivery. */
export const ALERT_SUBJECTS_MAX = 20;
export const ALERT_MESSAGES_MAX = 4;
