"""Every number that bounds something on this side, its unit in its name. Those that the platform has too are equal."""

FRAME_MAX_BYTES = 64 * 1024 * 1024
FRAME_HEAD_MAX_BYTES = 0xFFFF
BODY_FRAME_BYTES = 64 * 1024
# Below the size from which malloc maps fresh pages for each buffer.
READ_BYTES = 64 * 1024
# The largest block that glibc keeps when it is given back (DEFAULT_MMAP_THRESHOLD_MAX), with what it adds to one.
KEPT_BUFFER_BYTES = 32 * 1024 * 1024 - 64 * 1024

RECONNECT_FIRST_S = 0.05
RECONNECT_STEP_MAX_S = 2.0
# More jobs than this do not fit into the head of a HELLO: they go into its body.
HELD_IN_HEAD_MAX = 300
GREETING_TIMEOUT_S = 10.0
# A spare that dials ahead gives up after this: a START may wait for it.
AHEAD_TIMEOUT_S = 1.0
RECONNECT_DEFAULT_MS = 600_000

# A nursery that ended is replaced, at once and then with pauses that double.
RESTART_FIRST_S = 0.1
RESTART_STEP_MAX_S = 5.0
NURSERY_REQUESTS_MAX = 8

# User output. What is over the rate is counted and left out; the count is logged.
LOG_LINE_MAX_BYTES = 16 * 1024
LOG_FRAME_MAX_BYTES = 64 * 1024
LOG_RATE_BYTES_PER_S = 1024 * 1024
LOG_BURST_BYTES = 2 * 1024 * 1024
PIPE_READ_BYTES = 64 * 1024

# Kept for the platform while the link is down.
BACKLOG_MAX_BYTES = 16 * 1024 * 1024
LAUNCHER_BACKLOG_MAX_BYTES = 4 * 1024 * 1024
LAUNCHER_OUTPUT_MAX_BYTES = 1024 * 1024

# A running job is looked after (PING, CANCEL) from this age on.
WATCH_TICK_S = 0.005
WATCH_PARK_TICKS = 10

# An event loop that did not turn for so long while jobs run is held up: others read for it.
LOOP_HELD_UP_S = 0.05

# A worker stays awake so long for its next work, unless that was in vain lately: so often it is left out then.
BUSY_POLL_S = 0.0005
BUSY_POLL_PAUSE_MAX = 63

# A signal may be missed by a thread on its way into a system call; it is sent again after this time.
SIGNAL_AGAIN_MS = 50

# Where the machine has no thread left, it is asked again for one that work waits for.
THREAD_AGAIN_S = 0.2

# Results made in one go wait for each other at most this long.
COALESCE_S = 0.0005

# A zygote forks its next spare when its last worker was asked for this long ago, and goes when it had none for the other.
SPARE_DELAY_S = 0.05
ZYGOTE_TTL_S = 600.0

# Where no group of the kernel bounds a worker's memory and processes, they are looked at this often.
LIMIT_WATCH_S = 0.25

# Processes and threads of one worker.
WORKER_PIDS_MAX = 1024
# Of the workers of one revision together, where the kernel counts no others: room for what others need until one that made
# too many is ended.
REVISION_PIDS_MAX = 4 * WORKER_PIDS_MAX

# A worker that stays stopped (SIGSTOP) for longer is killed.
WORKER_STOPPED_MAX_S = 60.0

SOCKET_FD_MIN = 500
# Between launcher, zygotes and workers. A larger message, a START with many variables, goes as a file in memory.
START_MESSAGE_MAX_BYTES = 96 * 1024
# Of one message to a zygote: a channel, two outputs, and the files of a group, one for each controller.
MESSAGE_FDS_MAX = 8

# Of a streamed response body: what may be on its way and not yet taken by the caller.
STREAM_WINDOW_BYTES = 64 * 1024
# Of a request's body that the platform streams: what may be on its way and not yet taken by the function.
UPLOAD_WINDOW_BYTES = 256 * 1024
# A larger body that is there as a whole goes out as a stream, so that slow callers do not fill the platform's memory.
WHOLE_BODY_MAX_BYTES = 1024 * 1024
LOAD_BALANCED_BODY_MAX_BYTES = 30 * 1024 * 1024

# Of an ASGI application's answer the head waits so long for the body, which mostly comes at once and goes out with it.
ASGI_HEAD_WAIT_S = 0.02
# An ASGI application is told that its caller went away; when it goes on for longer, it is cancelled.
ASGI_DISCONNECT_GRACE_S = 1.0
ASGI_SHUTDOWN_S = 10.0

# A server of the endpoint's own. A line of its output and its last lines go into messages; heads and lines between chunks of
# its answers have bounds; it is asked whether it is ready with pauses that double.
SERVER_HEAD_MAX_BYTES = 64 * 1024
SERVER_HEADERS_MAX = 200
SERVER_INTERIM_MAX = 16
SERVER_CHUNK_LINE_MAX_BYTES = 4 * 1024
SERVER_LAST_LINES = 20
SERVER_LAST_LINE_MAX_BYTES = 300
SERVER_OUTPUT_READS_MAX = 32
SERVER_PROBE_S = 5.0
SERVER_PROBE_STEP_S = 0.02
SERVER_PROBE_STEP_MAX_S = 0.5
SERVER_STOP_GRACE_S = 10.0
# A connection broke: so long its end is waited for, which would be the reason.
SERVER_EXIT_WAIT_S = 0.5

# Of a WebSocket inside an ASGI application: read before the application asks for it.
ASGI_MESSAGES_AHEAD = 16

WEBSOCKET_MESSAGE_MAX_BYTES = 16 * 1024 * 1024

# A larger result of a job fails; a larger response body goes out in parts.
RESULT_MAX_BYTES = 60 * 1024 * 1024
