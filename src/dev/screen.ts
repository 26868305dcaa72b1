/** What the session needs of a terminal; the CLI's Terminal fits. */
export interface Screen {
  readonly colors: Colors;
  readonly errColors: Colors;
  /** A line of the result. */
  out(line?: string): void;
  /** A line about the work. */
  note(line?: string): void;
  warn(message: string): void;
  table(head: readonly string[], rows: readonly (readonly string[])[]): Promise<void>;
  confirm(question: string, preset: boolean): Promise<boolean>;
}

type Paint = (text: string) => string;

export interface Colors {
  readonly isColorSupported: boolean;
  readonly bold: Paint;
  readonly dim: Paint;
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
}
