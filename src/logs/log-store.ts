/** What workers print, by endpoint; a bounded number of lines is kept. A line is one JSON object with a newline at its end. */
export interface LogReader {
  /** The lines that are kept, oldest first. */
  read(endpointId: string): Promise<string[]>;
  /** New lines as they come, until the returned function is called. */
  follow(endpointId: string, listener: (lines: string[]) => void): () => void;
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
