/**
 * Ctrl+C, and the signals that mean the same. A command that has something to undo claims them; otherwise the command
 * ends at once, with a word about what goes on without it.
 */
import type { Terminal } from "./terminal.ts";

/** What shells give a command that a signal ended. */
const CODES = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

export class Interrupt {
  readonly #terminal: Terminal;
  readonly #exit: (code: number) => never;
  readonly #claims: ((again: boolean) => void)[] = [];
  #asked = false;
  /** Said when the command ends by an interrupt: what has been done, what goes on, how to undo it. */
  note: string | undefined;

  constructor(terminal: Terminal, exit: (code: number) => never) {
    this.#terminal = terminal;
    this.#exit = exit;
    for (const [signal, code] of Object.entries(CODES)) process.on(signal, () => this.#arrived(code));
  }

  /** Until the returned function is called, `stop` is called instead of ending: with true from the second signal on. */
  claim(stop: (again: boolean) => void): () => void {
    this.#claims.push(stop);
    return () => {
      const index = this.#claims.indexOf(stop);
      if (index >= 0) this.#claims.splice(index, 1);
    };
  }

  /** Ends the command as an interrupt does. */
  end(code: number = CODES.SIGINT): never {
    this.#terminal.endProgress();
    if (this.note !== undefined) this.#terminal.note(this.note);
    return this.#exit(code);
  }

  #arrived(code: number): void {
    const claim = this.#claims.at(-1);
    if (claim === undefined) this.end(code);
    const again = this.#asked;
    this.#asked = true;
    claim(again);
  }
}
