/**
 * Calls without a key, per endpoint, caller's address and window. What is counted has a fixed size, however many addresses
 * call: each falls into one of many counters, by a hash that differs with every start, so nobody chooses whose it shares.
 */
import { hash, randomBytes } from "node:crypto";
import { RATE_WINDOW_MS } from "../domain/limits.ts";
import { RateLimited } from "./rate-limits.ts";

const COUNTERS = 65_536;

export interface PublicRateTaker {
  /** Counts one call. Throws RateLimited, or rejects with it, when the window's calls of this address are used up. */
  take(endpointId: string, address: string): void | Promise<void>;
}

export class PublicRate implements PublicRateTaker {
  readonly #max: number;
  readonly #now: () => number;
  readonly #salt = randomBytes(16).toString("hex");
  #counts: Uint32Array | undefined;
  #window = 0;

  /** `max` calls in a window; 0: any number. `now` in milliseconds, of a clock that is never set. */
  constructor(max: number, now: () => number) {
    this.#max = max;
    this.#now = now;
  }

  take(endpointId: string, address: string): void {
    if (this.#max === 0) return;
    const now = this.#now();
    const window = Math.floor(now / RATE_WINDOW_MS);
    this.#counts ??= new Uint32Array(COUNTERS);
    if (window !== this.#window) {
      this.#window = window;
      this.#counts.fill(0);
    }
    const digest = hash("sha256", `${this.#salt} ${endpointId} ${networkOf(address)}`, "buffer");
    const counter = digest.readUInt16LE(0);
    const count = this.#counts[counter]!;
    if (count >= this.#max) {
      const retryAfterS = Math.ceil(((window + 1) * RATE_WINDOW_MS - now) / 1000);
      const limit = `${this.#max} calls without a key in ${RATE_WINDOW_MS / 1000} s`;
      throw new RateLimited(`This endpoint takes at most ${limit} from one address.`, retryAfterS);
    }
    this.#counts[counter] = count + 1;
  }
}

/** Who has an IPv6 address has the 2^64 beside it. */
export function networkOf(address: string): string {
  if (!address.includes(":")) return address;
  const [head = "", tail] = address.split("%")[0]!.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length);
  const groups = [...before, ...Array<string>(zeros).fill("0"), ...after];
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
