/** What workers print, by endpoint; a bounded number of lines is kept. A line is one JSON object with a newline at its end. */
export interface LogReader {
  /**
   * What is kept of these endpoints, with all that was appended before: a log in pieces, the newest first. Never fails: what cannot
   * be read is said in a line. `since` and `until` (milliseconds since the epoch) leave out pieces, not lines of a piece.
   */
  read(endpointIds: readonly string[], between?: LogTimes): AsyncIterable<LogPiece>;
  /** New lines of these endpoints as they come, until the returned function is called. */
  follow(endpointIds: readonly string[], listener: LogListener): () => void;
}

export interface NewLines {
  readonly endpointId: string;
  readonly lines: readonly string[];
  /** So many before them came faster than they could be passed on. */
  readonly leftOut?: number;
}

/** A promise asks whoever can wait to wait for it with the next ones. */
export type LogListener = (news: NewLines) => Promise<void> | undefined;

export interface LogTimes {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

export interface LogPiece {
  readonly endpointId: string;
  /** None of its lines, nor of the pieces after it, is younger (milliseconds since the epoch). */
  readonly newestAt: number;
  /** Oldest first. */
  readonly lines: readonly string[];
  /** In place of lines that cannot be read: it says which, and is for whoever would have seen those. */
  readonly isNotice?: true;
}

/** Lines that go to a bucket together, as they are written: nothing of it changes. */
export interface ChunkText {
  readonly id: string;
  readonly endpointId: string;
  /** Of its lines, milliseconds since the epoch. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly lines: number;
  readonly text: string;
}

export interface LoggedLine {
  readonly endpointId: string;
  readonly workerId: string;
  readonly jobId: string;
  /** progress: an update that a job of a live endpoint reported. */
  readonly stream: "stdout" | "stderr" | "progress";
  readonly text: string;
}

export interface LogStore extends LogReader {
  /** Never fails: what cannot be kept is left out, and a line says how much. Resolves when more may come; undefined while it may. */
  append(line: LoggedLine): Promise<void> | undefined;
  /** Endpoints that have a log. */
  endpointIds(): Promise<string[]>;
  forget(endpointId: string): Promise<void>;
}
