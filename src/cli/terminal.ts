/**
 * The one place that prints. Results go to stdout, everything about them (progress, notes, errors) to stderr, so
 * that output can be piped. Control characters in it are others' words (terminal-text.ts) and are shown, not obeyed. Colours and the spinner appear only on a terminal and never with NO_COLOR.
 */
import type { Duplex } from "node:stream";
import pc from "picocolors";
import { stripVTControlCharacters } from "../lib/parts-of-node.ts";
import { terminalText } from "../lib/terminal-text.ts";
import { formatDuration } from "./format.ts";
import { FullScreen } from "./full-screen.ts";

type Colors = ReturnType<typeof pc.createColors>;
type Environment = Readonly<Record<string, string | undefined>>;

/** A step that takes time: a spinner on a terminal, one line for each new text elsewhere. */
export interface Progress {
  update(text: string): void;
  /** Ends the step; `text` replaces the last one. Without it the step vanishes from a terminal. */
  done(text?: string): void;
}

export interface Streams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream & { readonly fd: number };
  readonly stderr: NodeJS.WriteStream & { readonly fd: number };
}

export class Terminal {
  /** Colours for stdout and for stderr: either may be a file. */
  readonly colors: Colors;
  readonly errColors: Colors;
  /** A person sits at both ends and can be asked. */
  readonly interactive: boolean;
  /** Progress can be redrawn in place: texts may change often. */
  readonly live: boolean;
  readonly #streams: Streams;
  #print = (line: string): void => void this.#streams.stdout.write(line);
  #printNote = (line: string): void => void this.#streams.stderr.write(line);
  /** Of the step that is shown. */
  #endProgress = () => {};
  /** Of what is waited for. */
  #endWaiting = () => {};

  /** `exit`: nobody reads stdout any more, the reader's choice (`svc status | head`) and no failure; or nothing can be written there. */
  constructor(streams: Streams, env: Environment, exit: (code: number) => void) {
    this.#streams = streams;
    this.colors = pc.createColors(wantsColor(streams.stdout, env));
    this.errColors = pc.createColors(wantsColor(streams.stderr, env));
    this.interactive = streams.stdin.isTTY === true && streams.stderr.isTTY === true && !env.CI;
    this.live = streams.stderr.isTTY === true;
    streams.stdout.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") return exit(0);
      this.note(`${this.errColors.red("error:")} The output cannot be written: ${error.message}`);
      this.note("  Make room where it goes, or let it go elsewhere.");
      exit(1);
    });
    // Whom could it be told?
    streams.stderr.on("error", () => {});
  }

  /** Whether a person reads the result, not a program or a file. */
  get isRead(): boolean {
    return this.#streams.stdout.isTTY === true;
  }

  /** A person watches and types: the whole screen can be taken. */
  get hasScreen(): boolean {
    return this.isRead && this.#streams.stdin.isTTY === true;
  }

  fullScreen(on: ConstructorParameters<typeof FullScreen>[1]): FullScreen {
    return new FullScreen(this.#streams, on);
  }

  /** For texts that are broken into lines: as wide as is read well. */
  get columns(): number {
    const { isTTY, columns } = this.#streams.stdout;
    return Math.min((isTTY && columns) || COLUMNS_MAX, COLUMNS_MAX);
  }

  /** From now on lines wait for no reader, which may stand still: what others wait for goes on. Beyond a bound the oldest are dropped. */
  async neverWait(): Promise<void> {
    const { LOG_BACKLOG_MAX_BYTES } = await import("../domain/limits.ts");
    const { lineWriter } = await import("../lib/log.ts");
    const { stdout, stderr } = this.#streams;
    this.#print = lineWriter(stdout.fd, LOG_BACKLOG_MAX_BYTES);
    this.#printNote = lineWriter(stderr.fd, LOG_BACKLOG_MAX_BYTES);
  }

  /** A line of the result. */
  out(line = ""): void {
    this.#endWaiting();
    this.#print(`${terminalText(line)}\n`);
  }

  /** Text of the result, with no line end of its own. */
  write(text: string): void {
    this.#endWaiting();
    this.#streams.stdout.write(terminalText(text));
  }

  /** Has a program of elsewhere talk with the person, until its stream ends: what it writes is shown, and it reads what is typed. */
  attach(stream: Duplex): void {
    const { stdin } = this.#streams;
    const typed = (chunk: Buffer) => void stream.write(chunk);
    const over = () => void stream.end();
    stdin.on("data", typed).once("end", over);
    if (stdin.readableEnded) over();
    stream.setEncoding("utf8").on("data", (text: string) => this.write(text));
    stream.once("close", () => void stdin.off("data", typed).off("end", over).pause());
  }

  /** Bytes of the result as they are; false where a terminal would show them. */
  bytes(chunk: Uint8Array): boolean {
    if (this.#streams.stdout.isTTY) return false;
    this.#endWaiting();
    this.#streams.stdout.write(chunk);
    return true;
  }

  json(value: unknown): void {
    this.out(JSON.stringify(value, null, 2));
  }

  /** A line about the work: not part of the result. */
  note(line = ""): void {
    this.#endWaiting();
    this.#printNote(`${terminalText(line)}\n`);
  }

  warn(message: string): void {
    this.note(`${this.errColors.yellow("warning:")} ${message}`);
  }

  /** On a terminal it fits: long cells are cut, but for those of the columns that are kept `whole`; with "all" it may wrap. */
  async table(
    head: readonly string[],
    rows: readonly (readonly string[])[],
    whole: readonly string[] | "all" = [],
  ): Promise<void> {
    const { default: Table } = await import("cli-table3");
    const table = new Table({
      head: head.map((cell) => this.colors.dim(cell)),
      style: { head: [], border: [], "padding-left": 0, "padding-right": 2 },
      chars: NO_BORDERS,
    });
    table.push(...(whole === "all" ? rows : this.#fitted(head, rows, whole)).map((row) => [...row]));
    for (const line of table.toString().split("\n")) this.out(line.trimEnd());
  }

  #fitted(head: readonly string[], rows: readonly (readonly string[])[], whole: readonly string[]): string[][] {
    const { isTTY, columns } = this.#streams.stdout;
    const width = (cell: string) => stripVTControlCharacters(cell).length;
    const widths = head.map((cell, i) => Math.max(width(cell), ...rows.map((row) => width(row[i] ?? ""))));
    const room = isTTY ? (columns || 80) - 2 * (head.length - 1) : Number.POSITIVE_INFINITY;
    const cuttable = [...widths.keys()].filter((i) => !whole.includes(head[i]!));
    while (widths.reduce((sum, one) => sum + one, 0) > room) {
      const widest = Math.max(CELL_MIN, ...cuttable.map((i) => widths[i]!));
      if (widest === CELL_MIN) break;
      widths[widths.findIndex((one, i) => one === widest && cuttable.includes(i))]!--;
    }
    const cut = (cell: string, i: number) =>
      width(cell) <= widths[i]! ? cell : `${stripVTControlCharacters(cell).slice(0, widths[i]! - 1)}…`;
    return rows.map((row) => row.map(cut));
  }

  async progress(text: string, started = performance.now()): Promise<Progress> {
    if (!this.live) return this.#plainProgress(text);
    const { default: yoctoSpinner } = await import("yocto-spinner");
    const { stderr: stream } = this.#streams;
    let shown = text;
    const line = () => {
      const seconds = Math.floor((performance.now() - started) / 1000);
      const time = seconds < ELAPSED_FROM_S ? "" : ` (${formatDuration(seconds * 1000).replace(".0 s", " s")})`;
      return terminalText(shown).slice(0, Math.max(10, (stream.columns || 80) - 4 - time.length)) + time;
    };
    // Left to itself it ends the process at Ctrl+C, before anybody could clean up.
    const spinner = yoctoSpinner({ text: line(), stream, handleSignals: false }).start();
    const draw = () => {
      spinner.text = line();
    };
    const ticking = setInterval(draw, 1_000).unref();
    this.#endProgress = () => {
      clearInterval(ticking);
      spinner.stop();
    };
    return {
      update: (next) => {
        shown = next;
        draw();
      },
      done: (last) => {
        clearInterval(ticking);
        if (last === undefined) spinner.stop();
        else spinner.success(terminalText(last));
      },
    };
  }

  /**
   * What a result is waited for: a step that is shown on a terminal alone and once it takes long, until anything is printed
   * or the returned function is called.
   */
  waiting(text: string): () => void {
    if (!this.live) return () => {};
    const started = performance.now();
    let shown: Progress | undefined;
    let isOver = false;
    const timer = setTimeout(async () => {
      const progress = await this.progress(text, started);
      if (isOver) progress.done();
      else shown = progress;
    }, WAITING_FROM_MS);
    this.#endWaiting = () => {
      this.#endWaiting = () => {};
      isOver = true;
      clearTimeout(timer);
      shown?.done();
    };
    return () => this.#endWaiting();
  }

  /** Takes the step that is shown from the screen, as done() does; for who is about to end the process. */
  endProgress(): void {
    this.#endProgress();
  }

  #plainProgress(text: string): Progress {
    let shown = "";
    const show = (line: string) => {
      if (line !== shown) this.note(line);
      shown = line;
    };
    show(text);
    return { update: show, done: (last) => last !== undefined && show(last) };
  }

  /** Asks a yes/no question. An empty answer means `preset`, the end of input no; Ctrl+C ends the command. */
  async confirm(question: string, preset: boolean): Promise<boolean> {
    const { createInterface } = await import("node:readline");
    const reader = createInterface({ input: this.#streams.stdin, output: this.#streams.stderr });
    try {
      const answer = await new Promise<string>((resolve) => {
        reader.once("close", () => {
          this.note();
          resolve("no");
        });
        // The line is read in raw mode: the terminal itself makes no signal of it.
        reader.once("SIGINT", () => {
          this.note();
          process.kill(process.pid, "SIGINT");
        });
        reader.question(`${terminalText(question)} ${preset ? "[Y/n]" : "[y/N]"} `, resolve);
      });
      const word = answer.trim().toLowerCase();
      return word === "" ? preset : word === "y" || word === "yes";
    } finally {
      reader.close();
    }
  }

  /** Asks for a secret without showing it; undefined when the person gives up. */
  async secret(question: string): Promise<string | undefined> {
    const { isCancel, password } = await import("@clack/prompts");
    const answer = await password({ message: terminalText(question) });
    return isCancel(answer) ? undefined : answer.trim();
  }
}

function wantsColor(stream: NodeJS.WriteStream, env: Environment): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== "0";
  return stream.isTTY === true && env.TERM !== "dumb";
}

const COLUMNS_MAX = 100;
/** A step that takes so long says how long it takes. */
const ELAPSED_FROM_S = 3;
/** What is answered sooner needs no word. */
const WAITING_FROM_MS = 1_000;
/** A column of a table is not cut below this. */
const CELL_MIN = 6;
const NO_BORDERS = Object.fromEntries(
  [
    "top",
    "top-mid",
    "top-left",
    "top-right",
    "bottom",
    "bottom-mid",
    "bottom-left",
    "bottom-right",
    "left",
    "left-mid",
    "mid",
    "mid-mid",
    "right",
    "right-mid",
    "middle",
  ].map((name) => [name, ""]),
);
