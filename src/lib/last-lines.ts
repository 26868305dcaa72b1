/**
 * The last lines of what a program printed, from pieces as they came: a line may come in several, and pieces of its two
 * outputs may lie between. Colours and other terminal sequences are left out.
 */
import { stripVTControlCharacters } from "./parts-of-node.ts";

/** Longer ones are cut. */
const LINE_MAX_CHARS = 500;

export class LastLines {
  readonly lines: string[] = [];
  readonly #max: number;
  readonly #onLine: (line: string) => void;
  #begun = "";

  /** Empty lines are left out. */
  constructor(max: number, onLine: (line: string) => void = () => {}) {
    this.#max = max;
    this.#onLine = onLine;
  }

  add(text: string): void {
    const pieces = stripVTControlCharacters(text).split(/[\r\n]/);
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) this.end();
      this.#begun = (this.#begun + piece).slice(0, LINE_MAX_CHARS);
    }
  }

  /** The line that was begun is whole. */
  end(): void {
    const line = this.#begun;
    this.#begun = "";
    if (line.trim() === "") return;
    this.lines.push(line);
    if (this.lines.length > this.#max) this.lines.shift();
    this.#onLine(line);
  }
}
