/** What bounds the way to PostgreSQL. */

export const POSTGRES_PORT_DEFAULT = 5432;
/** Of one URL. */
export const POSTGRES_HOSTS_MAX = 16;
/** A server of an earlier major version is refused. */
export const POSTGRES_VERSION_MIN = 14;
export const POSTGRES_CONNECT_DEFAULT_S = 10;
export const POSTGRES_CONNECT_MAX_S = 300;
/** Connections of one platform, those of its queue included. */
export const POSTGRES_CONNECTIONS_DEFAULT = 10;
export const POSTGRES_CONNECTIONS_MIN = 4;
export const POSTGRES_CONNECTIONS_MAX = 200;
/** The queue holds so many of its own. */
export const POSTGRES_QUEUE_CONNECTIONS = 3;
/** Pause before a server that was away is asked again: it doubles from the first to the last. */
export const POSTGRES_RETRY_MIN_MS = 50;
export const POSTGRES_RETRY_MAX_MS = 1_000;
/** Work waits so long for a database that is away, or for a free connection, before it is refused. */
export const POSTGRES_WAIT_MAX_MS = 10_000;
/** A statement of the store that takes longer has lost its server. */
export const POSTGRES_STATEMENT_MAX_MS = 30_000;
/** A connection that is ended in order is ended without its server after that. */
export const POSTGRES_END_MAX_MS = 1_000;
/** So often a platform looks for what others changed in the store. */
export const CHANGES_POLL_MS = 1_000;
/** What was changed is known so long to those who were not there, and looked through for older so often. */
export const CHANGES_KEPT_MS = 24 * 3_600_000;
export const CHANGES_TRIM_MS = 10 * 60_000;
/** A platform says so often that it has its database; one that is silent for so long has lost it to another that waits. */
export const OWNER_BEAT_MS = 1_000;
export const OWNER_SILENT_MS = 5_000;
/** So often a replica says that it lives and looks who has which shard; one that is silent for so long has its shards taken over. */
export const REPLICA_BEAT_MS = 1_000;
export const REPLICA_SILENT_MS = 3_000;
/** A replica that has been silent for so long and owns nothing is forgotten. */
export const REPLICA_FORGET_MS = 60_000;
/** A platform that waits for the database's owner says so often that it is there, and its row is forgotten after this time. */
export const WAITING_BEAT_MS = 1_000;
export const WAITING_FORGET_S = 600;
/** Its link to the owner is dialled again after this time, doubled each time up to the second. One that says nothing for so long is given up, one whose shards were taken over after REPLICA_SILENT_MS. */
export const REPLICA_REDIAL_MIN_MS = 100;
export const REPLICA_REDIAL_MAX_MS = 250;
export const REPLICA_LINK_SILENCE_MS = 6_000;
/** One that gives the database to another says so long at least that it is not ready, and takes calls all the same. */
export const REPLICA_LEAVE_MS = 5_000;
/** One that finds no platform that has the database says after so long that it is not ready: until then another takes it, and calls are held. */
export const REPLICA_UNREADY_MS = 10_000;
/** Calls are held so long while no platform has the database, and so many of them. */
export const REPLICA_HELD_MAX_MS = 60_000;
export const REPLICA_HELD_MAX = 4_096;
/** Who said that an endpoint is not its own is asked again after so long: it may have been told before it knew. */
export const ROUTE_AGAIN_MS = 50;
/** Where platforms share the endpoints: whoever shows something asks the others, and goes on without one that does not answer in time. */
export const VIEW_ANSWER_MAX_MS = 3_000;
/** Who follows at another platform waits there so long for something new, asks again after so long where it was refused, */
export const NEWS_HOLD_MS = 10_000;
export const NEWS_AGAIN_MS = 1_000;
/** and is forgotten when it asks no more. A platform has so many of them. */
export const NEWS_FORGET_MS = 60_000;
export const NEWS_FOLLOWERS_MAX = 1_000;
/** A partition of final jobs is made or dropped if nobody keeps its lock for so long: all others wait meanwhile. */
export const PARTITION_LOCK_MAX_MS = 100;
/** A platform that starts waits so long at most until its shards are in memory, and one that stops until it has given them away. */
export const SHARDS_SETTLE_MAX_MS = 5_000;
export const SHARDS_GIVEN_MAX_MS = 60_000;
/** Workers and scaling follow shards that come and go no more often than this. */
export const SHARDS_LOOK_PAUSE_MS = 200;
/** So many shards with workers or work a replica that leaves gives at a time, and one that stays: one that takes long holds up no other. */
export const SHARDS_LEFT_AT_ONCE = 16;
export const SHARDS_GIVEN_AT_ONCE = 4;
/** So often it is looked whether the workers of one that is given have finished. */
export const SHARD_POLL_MS = 5;
/** So long at most whoever gets a shard makes ready for its endpoints before it is given. */
export const SHARD_READY_MAX_MS = 20_000;
/** Meanwhile it runs so many workers of endpoints that are not its own yet, and ends one whose endpoint does not come in this time. */
export const WORKERS_AHEAD_MAX = 64;
export const WORKER_AHEAD_MAX_MS = 60_000;
/** It is asked for so many endpoints at a time, whose ids and revisions have so many characters. */
export const AHEAD_ENDPOINTS_MAX = 1_000;
export const AHEAD_ID_MAX_CHARS = 200;
/** Another replica should have had a shard for so long before it is given to it. */
export const SHARD_BETTER_MS = 10_000;
/** One whose endpoints have jobs that may take longer than it takes to give it is given when none runs, or after so long. */
export const SHARD_BUSY_MAX_MS = 3_600_000;
/** Jobs of an endpoint that take longer than this on average, or of which none has ended yet, may take so long. */
export const SHARD_SHORT_JOBS_MS = 10_000;
/** So long whoever looks at the platform is told that the database lost the end of what was written. */
export const TAIL_LOST_TOLD_MS = 24 * 3_600_000;
/** Rows, each 36 bytes, for which a database that had no room must have some before anything is stored again: 1 MiB. */
export const POSTGRES_PROBE_ROWS = 30_000;
/** A move to or from a database takes jobs by so many, or so many bytes of them, so many bodies of them at once, and other rows by so many. */
export const MOVE_BATCH_JOBS = 1_000;
export const MOVE_BATCH_BYTES = 8 * 1024 * 1024;
export const MOVE_BODIES_AT_ONCE = 4;
export const MOVE_ROWS_AT_ONCE = 200;
