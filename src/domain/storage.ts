/** When what is to be stored cannot be: the machine's disk is full or cannot be written, no further file can be opened, or the database has no room. */
import { SvcError } from "./errors.ts";
import { FILE_MAX_AT_LEAST_BYTES } from "./limits.ts";

export type Lack = "room" | "disk" | "descriptors" | "database";

/** By errno, and by PostgreSQL's SQLSTATE: its disk is full, its memory is used up. */
const CODES: Readonly<Record<string, Lack>> = {
  ENOSPC: "room",
  EDQUOT: "room",
  EFBIG: "disk",
  EIO: "disk",
  EROFS: "disk",
  EMFILE: "descriptors",
  ENFILE: "descriptors",
  "53100": "database",
  "53200": "database",
};
/** Where PostgreSQL refuses writes until its tables were vacuumed: it has no further numbers for transactions. */
const NO_NUMBERS = new Set(["GetNewTransactionId", "GetNewMultiXactId"]);
const SQLITE_FULL = 13;
/** SQLite's extended codes of writes, flushes and growing that failed: over a quota, or on a disk that broke, it says no more than that. */
const SQLITE_WRITE_FAILED = new Set([778, 1034, 1290, 1546, 4874, 5386]);

/**
 * A file of the platform's own that was not written, whatever the system said: its folder may be another user's by now, or away
 * with the server that it lies on. `again` rejects as long as that lasts.
 */
export class NotWritten extends Error {
  readonly again: () => Promise<void>;

  constructor(cause: unknown, again: () => Promise<void>) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.again = again;
  }
}

/** What was lacking when this was thrown; undefined when it failed for another reason. */
export function lackOf(error: unknown): Lack | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  if (error instanceof NotWritten) return lackOf(error.cause) ?? "disk";
  const { code, routine, errcode, cause } = error as Record<"code" | "routine" | "cause", unknown> & {
    errcode?: number;
  };
  const lack = typeof code === "string" ? CODES[code] : undefined;
  if (lack !== undefined) return lack;
  if (typeof routine === "string" && NO_NUMBERS.has(routine)) return "database";
  if (errcode !== undefined) {
    if (errcode % 256 === SQLITE_FULL) return "room";
    return SQLITE_WRITE_FAILED.has(errcode) ? "disk" : undefined;
  }
  return lackOf(cause);
}

const WORDS: Readonly<Record<Lack, readonly [message: string, help: string]>> = {
  room: [
    "The platform's disk is full: nothing new can be stored.",
    "Make room on the disk of the platform's data directory; it goes on by itself then.",
  ],
  disk: [
    "The platform's disk cannot be written: nothing new can be stored.",
    "A quota may be used up, the disk be read-only or broken, or a folder be another user's: the platform's log and the system's say more. The platform goes on by itself once it can be written.",
  ],
  descriptors: [
    "The platform has as many files open as it may: nothing new can be stored.",
    "Try again in a moment. Raise the limit of open files (ulimit -n) when it happens often.",
  ],
  database: [
    "The platform's database has no room: nothing new can be stored.",
    "Make room on the database's disk, whose log says what is lacking; the platform goes on by itself then.",
  ],
};

/** What a caller hears whose write is refused. `cause`: what failed, when it was tried. */
export function storageFull(lack: Lack, cause?: unknown): SvcError {
  const [message, help] = WORDS[lack];
  return new SvcError("STORAGE_FULL", message, { help, cause });
}

/** Throws where no file may grow to more than `maxBytes`: sooner or later the databases could not be written. */
export function refuseSmallFiles(maxBytes: number | undefined): void {
  if (maxBytes === undefined || maxBytes >= FILE_MAX_AT_LEAST_BYTES) return;
  throw new SvcError("DATA_DIRECTORY", `No file may have more than ${maxBytes} bytes here, a database among them.`, {
    help: "Run ulimit -f unlimited first, or give the service LimitFSIZE=infinity.",
  });
}

/** What whoever looks at the platform is told while that lasts. */
export function storageNotice(lack: Lack): string {
  const { message, help } = storageFull(lack);
  return `${message} ${help} Reads and running jobs go on.`;
}

/** `error`, or the same in a user's words when something was lacking. */
export function explained(error: unknown): unknown {
  if (error instanceof SvcError) return error;
  const lack = lackOf(error);
  return lack === undefined ? error : storageFull(lack, error);
}

/** Of a file or folder that the system refused, or of a connection. */
export function isOfSystem(error: unknown): boolean {
  return error instanceof Error && "errno" in error;
}

/** What a caller hears when a file of the platform's own could not be used, whatever the system said. */
export function diskRefused(error: unknown): unknown {
  return isOfSystem(error) ? storageFull(lackOf(error) ?? "disk", error) : explained(error);
}

/** For a write that is better left out than waited for. */
export function unlessFull(error: unknown): void {
  if (lackOf(error) === undefined) throw error;
}

/**
 * Whoever fails to write says so here. From then until what was lacking is there again, writes that may be
 * refused are refused, and those that must not be lost wait.
 */
export interface StorageWatch {
  /** Undefined as long as all is well. */
  readonly lack: Lack | undefined;
  /** Returns what was lacking; undefined, and nothing happens, when the error has another reason. */
  noticed(error: unknown): Lack | undefined;
  /** Does `work`, and again whenever it failed for want of what is back now; waiting works go in the order they came. */
  keep<T>(work: () => Promise<T>): Promise<T>;
  /** Called when it is over, before those who wait. */
  onReturn(listener: () => void): void;
}

/** For those who have no platform around them: every failure is the caller's. */
export const UNWATCHED: StorageWatch = {
  lack: undefined,
  noticed: lackOf,
  keep: (work) => work(),
  onReturn: () => {},
};
