/** One-time links to the console, in memory and bounded: they live for minutes, and whoever asked simply asks again. */
import { randomBytes } from "node:crypto";
import { hashSecret, type Principal } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { CONSOLE_LINK_MS, CONSOLE_LINKS_MAX, CONSOLE_LINKS_PER_KEY_MAX } from "../domain/limits.ts";

const CODE_BYTES = 32;

interface Link {
  readonly keyId: string;
  /** Milliseconds of a clock that nobody sets. */
  readonly endsAt: number;
}

export class ConsoleLinks {
  /** Milliseconds of a clock that nobody sets. */
  readonly #now: () => number;
  /** By the hash of the code; the oldest first. */
  readonly #links = new Map<string, Link>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A code that is worth one session of this key, for CONSOLE_LINK_MS. Throws FORBIDDEN for a session, RATE_LIMITED. */
  open(principal: Principal): string {
    // Otherwise a stolen session would go on for ever.
    if (principal.kind !== "key" || principal.sessionId !== undefined) {
      throw new SvcError("FORBIDDEN", "Only a key itself opens a console.", { help: "Run svc console in a terminal." });
    }
    this.#sweep();
    const own = [...this.#links].filter(([, { keyId }]) => keyId === principal.id);
    if (own.length >= CONSOLE_LINKS_PER_KEY_MAX) this.#links.delete(own[0]![0]);
    if (this.#links.size >= CONSOLE_LINKS_MAX) {
      throw new SvcError("RATE_LIMITED", "Too many links to the console wait.", { help: "Try again in some minutes." });
    }
    const code = randomBytes(CODE_BYTES).toString("base64url");
    this.#links.set(hashSecret(code), { keyId: principal.id, endsAt: this.#now() + CONSOLE_LINK_MS });
    return code;
  }

  /** The id of the key the code stands for, once; undefined for a code that is unknown, used or too old. */
  take(code: string): string | undefined {
    this.#sweep();
    const hash = hashSecret(code);
    const link = this.#links.get(hash);
    this.#links.delete(hash);
    return link?.keyId;
  }

  #sweep(): void {
    const now = this.#now();
    for (const [hash, { endsAt }] of this.#links) if (endsAt <= now) this.#links.delete(hash);
  }
}
