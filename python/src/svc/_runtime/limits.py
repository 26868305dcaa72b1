"""Every number that bounds something on this side, its unit in its name. Those that the platform has too are equal."""

FRAME_MAX_BYTES = 64 * 1024 * 1024
BODY_FRAME_BYTES = 256 * 1024
# Below the size from which malloc maps fresh pages for each buffer.
READ_BYTES = 64 * 1024

RECONNECT_FIRST_S = 0.05
RECONNECT_STEP_MAX_S = 2.0
GREETING_TIMEOUT_S = 10.0
RECONNECT_DEFAULT_MS = 600_000

# User output. What is over the rate is counted and left out; the count is logged.
LOG_LINE_MAX_BYTES = 16 * 1024
LOG_RATE_BYTES_PER_S = 1024 * 1024
LOG_BURST_BYTES = 2 * 1024 * 1024
PIPE_READ_BYTES = 64 * 1024

# Kept for the platform while the link is down.
BACKLOG_MAX_BYTES = 16 * 1024 * 1024
LAUNCHER_BACKLOG_MAX_BYTES = 4 * 1024 * 1024

# A running job is looked after (PING, CANCEL) from this age on.
WATCH_TICK_S = 0.005
WATCH_PARK_TICKS = 10

# Results made in one go wait for each other at most this long.
COALESCE_S = 0.0005

SOCKET_FD_MIN = 500
START_MESSAGE_MAX_BYTES = 96 * 1024

# A larger result of a job fails; a larger response body goes out in parts.
RESULT_MAX_BYTES = 60 * 1024 * 1024
