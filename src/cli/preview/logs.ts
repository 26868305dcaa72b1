/** What all workers of a preview print, in one terminal: every line behind the name of its endpoint. */

import type { Platform } from "../../client/answer-error.ts";
import { endpointLogs, type LogLine } from "../../client/logs.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { LOG_TAIL_MAX_LINES } from "../../domain/limits.ts";
import type { Terminal } from "../terminal.ts";

const COLORS = ["cyan", "magenta", "green", "blue", "cyanBright", "magentaBright", "greenBright"] as const;

export class PreviewLogs {
  readonly #print: (line: string) => void;
  readonly #colors: Terminal["colors"];
  readonly #stop = new AbortController();
  readonly #following: Promise<void>[] = [];
  #held: string[] | undefined = [];

  /** Lines are held back until `show`. */
  constructor(colors: Terminal["colors"], print: (line: string) => void) {
    this.#colors = colors;
    this.#print = print;
  }

  follow(platform: Platform, endpoints: readonly Pick<EndpointRecord, "id" | "name">[]): void {
    const width = Math.max(...endpoints.map(({ name }) => name.length));
    for (const [index, { id, name }] of endpoints.entries()) {
      const prefix = this.#colors[COLORS[index % COLORS.length]!](`${name.padEnd(width)} |`);
      this.#following.push(this.#followOne(platform, id, prefix));
    }
  }

  /** Prints what was held back, and from now on every line as it comes. */
  show(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const line of held) this.#print(line);
  }

  /** Resolves when no further line comes. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#following);
  }

  async #followOne(platform: Platform, endpointId: string, prefix: string): Promise<void> {
    const wanted = { follow: true, tail: LOG_TAIL_MAX_LINES, signal: this.#stop.signal };
    try {
      for await (const line of endpointLogs(platform, endpointId, wanted)) this.#line(prefix, line);
    } catch {
      // The platform has ended; whoever waits for it says so.
    }
  }

  #line(prefix: string, { stream, text }: LogLine): void {
    const line = `${prefix} ${stream === "stderr" ? this.#colors.yellow(text) : text}`;
    if (this.#held === undefined) this.#print(line);
    else this.#held.push(line);
  }
}
