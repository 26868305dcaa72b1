/** One reader of an endpoint's new log lines. It may be slow: what it does not take in time is left out and counted, and it is told. */
import type { ServerResponse } from "node:http";
import { LOG_FOLLOWER_MAX_BYTES } from "../domain/limits.ts";

export class LogFollower {
  readonly #response: ServerResponse;
  readonly #clock: () => number;
  #leftOut = 0;

  constructor(response: ServerResponse, clock: () => number) {
    this.#response = response;
    this.#clock = clock;
    response.on("drain", () => this.#tell());
  }

  /** Each line ends with a newline. */
  write(lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (this.#leftOut === 0 && this.#response.writableLength < LOG_FOLLOWER_MAX_BYTES) {
      this.#response.write(lines.join(""));
    } else this.#leftOut += lines.length;
  }

  /** It has taken all there was. */
  #tell(): void {
    if (this.#leftOut === 0) return;
    const text = `[svc] ${this.#leftOut} lines were left out here: they came faster than they were read. "svc logs" without --follow has those that are kept.`;
    this.#leftOut = 0;
    const notice = { at: this.#clock(), worker: "", job: "", stream: "stderr", text };
    this.#response.write(`${JSON.stringify(notice)}\n`);
  }
}
