/**
 * A terminal's whole screen, redrawn in place. It has a buffer of its own: what stood there before is back when it closes, however
 * the command ends.
 */
import { stripVTControlCharacters } from "../lib/parts-of-node.ts";
import { terminalText } from "../lib/terminal-text.ts";

const ENTER = "\x1b[?1049h\x1b[?25l";
const LEAVE = "\x1b[?25h\x1b[?1049l";
const HOME = "\x1b[H";
const CLEAR_REST_OF_LINE = "\x1b[K";
const CLEAR_BELOW = "\x1b[J";
const PLAIN = "\x1b[0m";

interface ScreenStreams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
}

export class FullScreen {
  readonly #streams: ScreenStreams;
  readonly #onKey: (key: string) => void;
  readonly #onResize: () => void;
  readonly #keys = (data: Buffer) => this.#onKey(data.toString("utf8"));
  #open = false;

  constructor(streams: ScreenStreams, on: { readonly key: (key: string) => void; readonly resize: () => void }) {
    this.#streams = streams;
    this.#onKey = on.key;
    this.#onResize = on.resize;
  }

  get columns(): number {
    return this.#streams.stdout.columns || 80;
  }

  get rows(): number {
    return this.#streams.stdout.rows || 24;
  }

  open(): void {
    if (this.#open) return;
    this.#open = true;
    const { stdin, stdout } = this.#streams;
    stdout.write(ENTER);
    // Keys come one by one, and Ctrl+C as a key.
    stdin.setRawMode(true);
    stdin.on("data", this.#keys);
    stdin.resume();
    stdout.on("resize", this.#onResize);
  }

  /** Lines beyond the screen are left out, and so is what does not fit into one. */
  show(lines: readonly string[]): void {
    if (!this.#open) return;
    const shown = lines.slice(0, this.rows).map((line) => this.#fitted(line) + PLAIN + CLEAR_REST_OF_LINE);
    this.#streams.stdout.write(`${HOME}${shown.join("\r\n")}${CLEAR_BELOW}`);
  }

  /** Idempotent. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const { stdin, stdout } = this.#streams;
    stdout.off("resize", this.#onResize);
    stdin.off("data", this.#keys);
    stdin.setRawMode(false);
    stdin.pause();
    stdout.write(LEAVE);
  }

  #fitted(line: string): string {
    const text = terminalText(line.replaceAll("\n", " "));
    const plain = stripVTControlCharacters(text);
    return plain.length <= this.columns ? text : plain.slice(0, this.columns);
  }
}
