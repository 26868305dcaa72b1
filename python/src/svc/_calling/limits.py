"""Every number that bounds a call, its unit in its name. Those that the platform has too are equal."""

PEER_CACHE_S = 300.0

# Long polls: one request holds at most this long, and its answer may come this much later.
POLL_WAIT_MS = 60_000
POLL_WAIT_MIN_MS = 1_000
ANSWER_LATE_S = 15.0
# A look at whether the caller was cancelled, while an answer is waited for.
LOOK_S = 0.5

# Of /run and /runsync. Larger arguments than the first go through /runsync only.
RUN_BODY_MAX_BYTES = 10 * 1024 * 1024
EXECUTION_TIMEOUT_MIN_MS = 5_000
EXECUTION_TIMEOUT_MAX_MS = 7 * 24 * 3_600_000
EXECUTION_TIMEOUT_DEFAULT_MS = 600_000
REQUEST_TIMEOUT_DEFAULT_MS = 60_000

CONNECT_MAX_S = 10.0
# A connection that was idle for longer is not used again: the platform closes it after 75 s.
IDLE_MAX_S = 60.0
IDLE_CONNECTIONS_MAX = 64

# Back-off after a broken connection or a platform that shuts down: first, largest, and when to give up.
RETRY_FIRST_S = 0.05
RETRY_STEP_MAX_S = 2.0
RETRY_NEVER_REACHED_S = 2.0
RETRY_MAX_S = 300.0

# Calls of asyncio code that wait at the same time, each in a thread.
THREADS_MAX = 128
# An error's own way to say goodbye to its job must not hold it up for long.
CANCEL_MAX_S = 2.0

# The line of a map is written anew so often at most.
PROGRESS_S = 0.1
# A notebook that shows a job waits so long for its state.
SHOWN_JOB_MAX_S = 3.0

# Of what svc deploy says, so much is kept for the error that it ends with.
DEPLOY_SAID_MAX_LINES = 1_000

MAP_CONCURRENCY_MAX = 512
# Results that may wait for an earlier one of a map, as a multiple of its concurrency.
MAP_AHEAD = 8
