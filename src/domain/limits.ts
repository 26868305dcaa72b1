/** Every number that bounds something, with its unit in its name. `docs/reference/limits.md` lists them for readers. */

export * from "./agent-limits.ts";
export * from "./bucket-limits.ts";
export * from "./command-limits.ts";
export * from "./gateway-limits.ts";
export * from "./history-limits.ts";
export * from "./host-limits.ts";
export * from "./image-limits.ts";
export * from "./join-limits.ts";
export * from "./log-limits.ts";
export * from "./pool-limits.ts";
export * from "./postgres-limits.ts";
export * from "./pull-limits.ts";
export * from "./queue-limits.ts";
export * from "./record-limits.ts";
export * from "./rest-limits.ts";
export * from "./storage-limits.ts";
export * from "./volume-limits.ts";

const KB = 1024;
const MB = 1024 * KB;

// Build and deploy
export const ARTIFACT_MAX_BYTES = 1_500_000_000;
/** Guards against a slip, not against use: it is one's own machine (docs/decisions/0013). */
export const WORKER_QUOTA = 1_000;
/** Endpoints that the refusal names. */
export const QUOTA_HOLDERS_SHOWN = 5;
/** Builds of an environment that a rollback can go back to, besides those in use. */
export const BUILDS_KEPT = 50;
/** Characters of what a deployer says about a build. */
export const DEPLOY_MESSAGE_MAX = 500;
/** Layers that stay in the build cache, those used last, by number and by their size together. */
export const SOURCE_LAYERS_KEPT = 50;
export const SOURCE_LAYERS_KEPT_BYTES = 5_000 * MB;
export const DEPENDENCY_LAYERS_KEPT = 100;
export const DEPENDENCY_LAYERS_KEPT_BYTES = 20_000 * MB;
/** A layer used this recently is not removed: another build may be packing it. */
export const CACHE_IN_USE_MS = 3_600_000;
/** A larger Python file of a project is packed, but not looked into. */
export const SCANNED_FILE_MAX_BYTES = 1 * MB;
/** Python has so long to read a project's files. */
export const SCAN_TIMEOUT_MS = 60_000;
/** A layer on the platform that no build refers to, or an unpacked one that nobody runs, stays so long after its last use. */
export const LAYER_UNUSED_KEPT_MS = 24 * 3_600_000;
/** A layer unpacks to at most the first and so many times its size, and never to more than the last. */
export const LAYER_UNPACKED_ANY_BYTES = 256 * MB;
export const LAYER_RATIO_MAX = 20;
export const LAYER_UNPACKED_MAX_BYTES = 12_000 * MB;
/** Files, folders and links of one layer. */
export const LAYER_ENTRIES_MAX = 300_000;
export const LAYER_SWEEP_MS = 3_600_000;
/** Files of a base layer that are written to the disk at once. */
export const SYNCS_AT_ONCE = 16;
/** Layers are sent, and what arrived of an upload that goes on is read, in pieces of this size. */
export const LAYER_READ_BYTES = 256 * KB;
/** Both ends close the connection of an upload on which nothing moves for so long. */
export const UPLOAD_IDLE_MAX_MS = 30_000;
/** An upload that breaks off is tried again as long as a further byte arrives within this time. */
export const UPLOAD_PATIENCE_MS = 60_000;
/** Layers remembered as sent by callers that are bound to an environment. */
export const LAYER_CLAIMS_MAX = 10_000;
/** A larger layer is sent after the question how much of it is there. */
export const UPLOAD_UNASKED_MAX_BYTES = 1 * MB;
export const GZIP_LEVEL_SOURCE = 6;
export const GZIP_LEVEL_DEPENDENCIES = 4;
export const INSTALLS_AT_ONCE = 2;
export const NAME_MAX_CHARS = 63;
/** Of a package that the platform provides, with its versions. */
export const REQUIREMENT_MAX_CHARS = 200;

// Users that workers run as: below those that machines lend to containers, above those that people and services have.
export const WORKER_UIDS_DEFAULT = [70_000, 99_999] as const;
/** The kernel knows no user from here on. */
export const USER_NUMBER_END = 2 ** 32 - 1;

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
export const SCALER_VALUE_MAX = 100_000;
/** Of a worker whose size is its own; in steps that add up exactly. */
export const CPU_MIN_VCPUS = 0.25;
export const CPU_MAX_VCPUS = 1024;
export const CPU_MIN_GB = 0.25;
export const CPU_MAX_GB = 16_384;
export const CPU_STEP = 0.25;
export const GPU_COUNT_MAX = 16;
/** The smallest part of a GPU that a worker can ask for. */
export const GPU_FRACTION_MIN = 0.05;
/** Of a machine's vCPUs and memory: what its GPU workers leave to the platform and to CPU endpoints. */
export const GPU_HOST_RESERVE_PART = 0.125;
export const PYTHON_MINOR_MIN = 10;
export const PYTHON_MINOR_MAX = 14;

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
/** An OpenAI stream's status is sent with its first chunk, or after this time. */
export const STREAM_HEAD_HOLD_MAX_MS = 30_000;
/** Chunks of one answer of /stream; a single larger one comes alone. */
export const STREAM_ANSWER_MAX_BYTES = MB;
/** Chunks of one job that are kept: not taken yet, or read by number. */
export const STREAM_KEPT_MAX_BYTES = 64 * MB;
/** The same of all jobs of an endpoint. */
export const STREAMS_KEPT_MAX_BYTES = 4096 * MB;
/** What each chunk counts besides its bytes: its row. */
export const STREAM_CHUNK_COST_BYTES = 128;
export const RUN_RETENTION_MS = 30 * 60_000;
export const RUNSYNC_RETENTION_MS = 60_000;
export const RUNSYNC_WAIT_RETENTION_MS = 5 * 60_000;
/** FAILED and TIMED_OUT jobs: kept for a look and a retry. */
export const FAILED_RETENTION_MS = 24 * 3_600_000;
/** Of one endpoint and state, once their own retention has passed. */
export const FAILED_KEPT_MAX_JOBS = 10_000;
/** Once the row of a final job is gone, what is known of it without input, output and error: */
export const EXPIRED_KEPT_MS = 7 * 24 * 3_600_000;
/** of one endpoint and state the newest. */
export const EXPIRED_KEPT_MAX_JOBS = 50_000;
export const QUEUED_MAX_JOBS = 1_000_000;
export const QUEUE_FULL_RETRY_S = 1;
export const JOB_LOSSES_MAX = 1;
/** Attempts after the first that an endpoint may ask for, and the longest wait before one. */
export const RETRIES_MAX = 100;
export const RETRY_DELAY_MAX_MS = 24 * 3_600_000;
export const RETRY_BACKOFF_MAX = 10;
/** Jobs that are due, and could not be queued or looked up, are tried again after so long. */
export const DELAYED_RETRY_MS = 1_000;
/** A longer time is waited for in parts: timers know no more. */
export const TIMER_MAX_MS = 3_600_000;

// Schedules
export const SCHEDULE_EVERY_MIN_MS = 1_000;
export const SCHEDULE_EVERY_MAX_MS = 366 * 24 * 3_600_000;
export const SCHEDULE_CHECK_MS = 10_000;
/** A tick that is later than this was missed. */
export const SCHEDULE_LATE_MAX_MS = 60_000;
/** A clock that was set back by more had been wrong: ticks are counted from now on again. */
export const SCHEDULE_STEP_MAX_MS = 24 * 3_600_000;
export const LEASE_MS = 15_000;
export const LEASE_RENEW_MS = 5_000;
export const LEASE_CHECK_MS = 1_000;
/** Inputs, outputs and errors of one endpoint that lie in files, unless configured. */
export const BODIES_KEPT_MAX_BYTES = 16_384 * MB;
/** Of all endpoints: files whose jobs are gone; who writes a further one removes them first. */
export const BODIES_DROPPED_MAX_BYTES = 1024 * MB;
/** Between two turns of the event loop: after a longer time nobody is judged by a silence once. */
export const STANDSTILL_MS = 2_000;
export const REQUESTS_PAGE_SIZE = 100;
/** Waiting jobs that are read at once for those who claim them. */
export const QUEUE_READ_ROWS = 256;
/** Rows deleted in one transaction. */
export const DELETE_BATCH_ROWS = 500;
/** Rows of the index of final jobs that one step of a sweep reads. */
export const SWEEP_WINDOW_ROWS = 20_000;
/** Files of bodies that a sweep looks at in one turn of the event loop. */
export const SWEEP_BATCH_FILES = 100;

// Storage
/** What one worker said and is not stored yet, each frame with its cost; it is not read from beyond that. */
export const STORING_MAX_BYTES = 4 * MB;
/** Of the platform's own log, and of an agent's: lines kept while they cannot be written, or nobody reads them. */
export const LOG_BACKLOG_MAX_BYTES = 64 * KB;

// API keys
export const OWNER_KEY_BYTES = 32;
export const SECRET_KEYS_MAX = 8; // at once: the newest, and those before it
/** The last use of a key is written down at most this often. */
export const KEY_USE_NOTED_MS = 60_000;

// Login by a second device
export const DEVICE_LIFETIME_MS = 600_000;
export const DEVICE_POLL_S = 2;
export const DEVICE_SLOW_DOWN_S = 5;
export const DEVICE_GRANTS_MAX = 1000;
export const DEVICE_GRANTS_PER_ADDRESS_MAX = 20;
export const DEVICE_GUESSES_MAX = 20;
export const DEVICE_GUESS_WINDOW_MS = 600_000;
export const DEVICE_GUESSERS_MAX = 10_000;
export const DEVICE_BODY_MAX_BYTES = 16 * KB;

// Console
/** A one-time link waits so long for its browser. */
export const CONSOLE_LINK_MS = 120_000;
export const CONSOLE_LINKS_PER_KEY_MAX = 5;
export const CONSOLE_LINKS_MAX = 1000;
export const CONSOLE_SESSION_MS = 12 * 3_600_000;
/** A further one ends the oldest. */
export const CONSOLE_SESSIONS_PER_KEY_MAX = 10;
export const CONSOLE_LOGIN_BODY_MAX_BYTES = 1 * KB;

// Secrets
export const SECRET_NAME_MAX_CHARS = 63;
export const SECRET_MAX_BYTES = 64 * KB;
export const SECRETS_PER_ENVIRONMENT_MAX = 500;
/** Names and values of one endpoint's variables together, with those of its secrets: what any program can be started with. */
export const ENVIRONMENT_MAX_BYTES = 128 * KB;
/** Larger ones travel beside the head of a START, which has 64 KiB. */
export const ENVIRONMENT_IN_HEAD_MAX_BYTES = 32 * KB;
/** Shorter texts are not masked in logs: they would hide half of every line. */
export const SECRET_MASKED_MIN_CHARS = 4;
/** Texts masked in the log of one endpoint. */
export const SECRET_MASKED_VALUES_MAX = 1000;

// Webhooks
export const WEBHOOK_RETRIES_MAX = 2;
export const WEBHOOK_RETRY_MS = 10_000;
export const WEBHOOK_RETRY_JITTER_MS = 2_000;
export const WEBHOOK_TIMEOUT_MS = 10_000;
export const WEBHOOK_BODY_MAX_BYTES = 10 * MB;
export const WEBHOOK_ANSWER_MAX_BYTES = 64 * KB;
/** The name servers are given so long for a receiver's address. */
export const WEBHOOK_NAME_ASK_MS = 4_000;
export const WEBHOOKS_AT_ONCE = 16;
export const WEBHOOKS_AT_ONCE_PER_HOST = 4;
export const WEBHOOK_CHECK_MS = 1_000;
/** Of the due ones, so many are read in the order of their time; behind them so many receivers are asked for theirs. */
export const WEBHOOK_WINDOW_ROWS = 256;
export const WEBHOOK_WINDOW_HOSTS = 64;

// Caches over the store
export const CACHED_KEYS_MAX = 10_000;
export const CACHED_ENDPOINTS_MAX = 20_000;
/** Source layers of builds. */
export const CACHED_BUILDS_MAX = 10_000;

// Workers
export const FRAME_MAX_BYTES = 64 * MB;
export const WORKER_BOOT_TIMEOUT_MS = 600_000;
export const WORKER_DRAIN_GRACE_MS = 30_000;
export const CANCEL_GRACE_MS = 5_000;
/** As long as it ends one cancelled work after the other, or still sends their answers: a thousand may be cancelled at once. */
export const CANCEL_MANY_MAX_MS = 60_000;
/** An acknowledgement waits so long for another frame to go with. */
export const ACK_DELAY_MAX_MS = 5;
/** The event loop stays awake so long for a worker's answer, unless that was in vain lately: so often it is left out then. */
export const BUSY_POLL_MAX_MS = 0.5;
export const BUSY_POLL_PAUSE_MAX = 63;
export const LINK_SWEEP_MS = 250;
export const LINK_PING_MS = 5_000;
export const LINK_SILENCE_MAX_MS = 15_000;
export const LINK_RETURN_MS = 1_000;
/** What a worker said last before its process ended has so long to arrive. */
export const LINK_LAST_WORDS_MAX_MS = 1_000;
/** What was said last before the platform closes a link has so long to leave. */
export const LINK_CLOSE_MAX_MS = 2_000;
/** Another process says that it is a worker whose link is open: that link has so long to answer, or loses its place. */
export const LINK_TAKEOVER_MS = 1_000;
/** Acknowledgements that a worker has not read while it goes on sending results. */
export const LINK_ACKS_UNREAD_MAX = 100_000;
/** The longest path that the kernel takes for a socket, with room for its end. */
export const SOCKET_PATH_MAX_BYTES = 100;
/** Numbers of jobs and requests on one link go up to here, and then begin again. */
export const CHANNEL_MAX = 0x7fff_ffff;
/** Before a connection has proved who it is. */
export const LINK_GREETING_MAX_MS = 5_000;
export const LINK_GREETING_MAX_BYTES = 128 * KB;
/** Connections of other machines that have not said who they are, at once. */
export const LINK_GREETERS_MAX = 256;
/** What one worker may say, in the long run and at once; beyond that it is not read from. Each of its frames counts so much, */
export const LINK_RATE_BYTES_PER_S = 16 * MB;
export const LINK_BURST_BYTES = 32 * MB;
export const LINK_FRAME_COST_BYTES = 256;
/** and a line that it prints so much, besides the bytes of lines and progress updates. */
export const LINK_LINE_COST_BYTES = 256;
/** One frame of printed lines; lines beyond that are left out. */
export const LOG_FRAME_MAX_BYTES = 64 * KB;
export const PREFETCH_JOBS_MAX = 128;
/** Inputs of the jobs of one worker: with so many of them it gets none ahead, and no more than that at once besides the last. */
export const PREFETCH_MAX_BYTES = 8 * MB;
export const PREFETCH_EXECUTION_MAX_MS = 10;
export const PREFETCH_PAUSE_MS = 60_000;
/** Of a streamed answer: what a worker may send ahead of its caller. */
export const STREAM_WINDOW_BYTES = 64 * KB;
/** Of a streamed answer: a worker that sends so much beyond what it was allowed is cut off. */
export const STREAM_EXCESS_MAX_BYTES = 1 * MB;
export const BOOT_FAILURES_MAX = 5;
export const BOOT_BACKOFF_MS = 1_000;
export const BOOT_BACKOFF_MAX_MS = 60_000;
export const AUTOSCALER_TICK_MS = 1_000;
export const AUTOSCALER_PAUSE_MS = 20;
export const AUTOSCALER_READS_AT_ONCE = 4;
/** A start that was refused for another reason than room. */
export const START_RETRY_MS = 1_000;
/** On a full machine: a worker with nothing to do for so long may go for another endpoint, */
export const FAIR_IDLE_MS = 20;
/** the only one of its endpoint, for an endpoint that has some, after this time; */
export const FAIR_LAST_IDLE_MS = 5_000;
/** and an endpoint that has none gets its turn after this time, even from those that hold no more than it would. */
export const FAIR_TURN_MS = 15_000;
export const LAUNCHER_RETURN_MS = 3_000;
/** How often it is looked whether the launcher is there. */
export const LAUNCHER_CHECK_MS = 250;
/** Whether a worker lives counts for as much as its launcher says, when that answers within this time. */
export const LAUNCHER_ANSWER_MAX_MS = 5_000;
/** One that is silent is asked for a sign of life, */
export const LAUNCHER_PING_MS = 5_000;
/** and one that gives none, or does not come back, is killed and replaced after this time. */
export const LAUNCHER_SILENCE_MAX_MS = 60_000;
/** The pause before a launcher that ended soon after its start is replaced; it doubles up to the longest. */
export const LAUNCHER_RESTART_FIRST_MS = 100;
export const LAUNCHER_RESTART_MAX_MS = 10_000;
/** When the platform stops: a launcher that has not ended its workers by then is killed. */
export const LAUNCHER_SHUTDOWN_MAX_MS = 10_000;
/** So long the platform's end waits until such a one is gone, with its workers. */
export const LAUNCHER_KILLED_MAX_MS = 2_000;
export const RECONNECT_MAX_MS = 600_000;
export const ZYGOTE_TTL_MS = 600_000;
/** How often the key of one who follows a log or the events is looked at again. */
export const FOLLOWER_CHECK_MS = 15_000;
/** `svc call --logs`: what a function printed last arrives beside its answer; so long nothing must have come, and so long it is waited for. */
export const CALL_LOGS_QUIET_MS = 300;
export const CALL_LOGS_MAX_MS = 3_000;
/** What the explorer of `svc run` shows of a call's output; older calls and lines give way. */
export const EXPLORER_CALLS_KEPT = 50;
export const EXPLORER_CALL_LINES_KEPT = 500;
export const EXPLORER_CALL_TEXT_KEPT_CHARS = 131_072;
/** Decisions of the autoscaler kept for each endpoint. */
export const DECISIONS_KEPT = 50;
export const RECONCILE_MS = 5_000;
export const SWEEP_MS = 10_000;
/** How often jobs and logs of removed endpoints are looked for that could not be removed with them. */
export const LEFT_BEHIND_MS = 600_000;
export const RESTART_LEASE_GRACE_MS = 30_000;
export const STOP_GRACE_MS = 30_000;
/** A platform that stops gives up what waits for a database that it finds away at looks so far apart. */
export const STOP_AWAY_MS = 3_000;
export const STOP_POLL_MS = 20;

// Containers
/** From the request for an endpoint's container until the launcher in it dials in. */
export const CONTAINER_START_TIMEOUT_MS = 60_000;
/** What a container may use besides its workers: the launcher and the zygote's imports. */
export const CONTAINER_EXTRA_BYTES = 256 * MB;
/** Processes and threads of one worker. */
export const CONTAINER_WORKER_PIDS = 1024;
/** After a worker's end, until its container's limits shrink. */
export const CONTAINER_SHRINK_MS = 2_000;
/** The engine answers a call within this time, where it has nothing to wait for, */
export const CONTAINER_CALL_MAX_MS = 30_000;
/** and one that does not is asked again after this time. */
export const CONTAINER_CALL_RETRY_MS = 1_000;
/** A platform that stops waits so long for containers on their way in or out, and looks so often. */
export const CONTAINERS_SETTLE_MAX_MS = 10_000;
export const CONTAINERS_LOOK_MS = 100;
/** A copy of a database for a backup is begun again for so long while that is being written to, so often. */
export const SNAPSHOT_BUSY_MAX_MS = 30_000;
export const SNAPSHOT_BUSY_PAUSE_MS = 5;

// Control plane
export const GRAPHQL_BODY_MAX_BYTES = 8 * MB;
/** Of an answer, about. */
export const GRAPHQL_ANSWER_MAX_CHARS = 32 * MB;
export const GRAPHQL_TOKENS_MAX = 20_000;
export const GRAPHQL_FIELDS_MAX = 500;
export const GRAPHQL_DEPTH_MAX = 10;
/** Names given by saveEndpoint; names in code follow NAME_MAX_CHARS. */
export const SAVED_NAME_MAX_CHARS = 191;
/** Where the debugger of svc run listens when that is free; a worker that starts has so long until it does. */
export const DEBUG_PORT_DEFAULT = 5678;
export const DEBUGGER_ANSWER_MAX_MS = 60_000;
export const DEBUG_LINKS_MAX = 16;
export const LOCAL_PORT_DEFAULT = 8888;
export const LOCAL_PORTS_TRIED_MAX = 100;
export const LOCAL_TOKEN_BYTES = 18;
/** A save is over when nothing changed for so long; a call that comes earlier does not wait for it. */
export const SAVE_SETTLES_MS = 25;
/** A live endpoint with new code gets a warm worker this long after the calls that wait for theirs. */
export const LIVE_WARM_UP_DELAY_MS = 150;
export const PROVISIONS_AT_ONCE = 3;
/** `svc run --auto-provision` asks before it makes more endpoints than this. */
export const PROVISIONS_UNASKED_MAX = 5;
/** A platform that went away is looked for this often. */
export const PLATFORM_RETRY_MS = 500;
/** A larger .platform/resources.pkl is not read. */
export const RESOURCES_FILE_MAX_BYTES = 1 * MB;
export const PLATFORM_PORT_DEFAULT = 7878;
