/** Those of limits.ts that are about disks and files. Import them from there. */
const MB = 1024 * 1024;
/** While the disk is full or no file can be opened, so often a look is taken whether that is over: */
export const STORAGE_CHECK_MS = 500;
/** so much must be free again, and a file of so many bytes and so many open ones be had. */
export const STORAGE_ROOM_BYTES = 4 * MB;
export const STORAGE_PROBE_BYTES = 1 * MB;
export const STORAGE_PROBE_FILES = 8;
/** Of the files that the platform may have open, what callers' connections leave to bodies, the database and workers. */
export const RESERVED_FILES_PART = 0.4;
export const RESERVED_FILES_MAX = 2048;
/** A platform, or an agent, whose files may not grow to so many bytes does not start: databases and layers would not fit. */
export const FILE_MAX_AT_LEAST_BYTES = 64 * 1024 * MB;
