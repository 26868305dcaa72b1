/**
 * Logins that wait for someone to approve them (RFC 8628), in memory and bounded: they live for minutes, and whoever
 * asked simply asks again after a restart.
 *
 *   request ─▶ PENDING ──approve──▶ (key stored) APPROVED ──poll──▶ (key handed out once, gone)
 *                 ├──deny─────────▶ DENIED ────poll──▶ (gone)
 *                 └──10 minutes───▶ (gone)
 */
import { hashSecret, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import {
  DEVICE_GRANTS_MAX,
  DEVICE_GRANTS_PER_ADDRESS_MAX,
  DEVICE_LIFETIME_MS,
  DEVICE_POLL_S,
  DEVICE_SLOW_DOWN_S,
} from "../../domain/limits.ts";

/** No vowels: no words; no digits and letters that look alike. */
const USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ";
const USER_CODE_CHARS = 8;
const DEVICE_CODE_BYTES = 32;

export interface GrantRequest {
  /** The machine that asks, for the approver and for the key's name. */
  readonly machine: string;
  readonly scopes: readonly KeyScope[];
  /** Network address it came from. */
  readonly address: string;
}

export interface Grant extends GrantRequest {
  readonly userCode: string;
  readonly expiresAt: number;
  state: "PENDING" | "APPROVING" | "DENIED" | { readonly secret: string };
  intervalS: number;
  nextPollAt: number;
}

export type PollOutcome =
  | { readonly secret: string; readonly grant: Grant }
  | { readonly error: "authorization_pending" | "slow_down" | "expired_token" | "access_denied" };

export class DeviceGrants {
  /** Milliseconds of a clock that nobody sets. */
  readonly #now: () => number;
  readonly #random: (bytes: number) => Uint8Array;
  /** By the hash of the device code. */
  readonly #grants = new Map<string, Grant>();

  constructor(now: () => number, random: (bytes: number) => Uint8Array) {
    this.#now = now;
    this.#random = random;
  }

  /** Throws RATE_LIMITED while too many wait. */
  open(request: GrantRequest): { readonly deviceCode: string; readonly grant: Grant } {
    this.#sweep();
    const waiting = [...this.#grants.values()];
    const sameAddress = waiting.filter(({ address }) => address === request.address).length;
    if (waiting.length >= DEVICE_GRANTS_MAX || sameAddress >= DEVICE_GRANTS_PER_ADDRESS_MAX) {
      throw new SvcError("RATE_LIMITED", "Too many logins wait for an approval.", {
        help: "Try again in some minutes.",
      });
    }
    const deviceCode = Buffer.from(this.#random(DEVICE_CODE_BYTES)).toString("base64url");
    const now = this.#now();
    const grant: Grant = {
      ...request,
      userCode: this.#userCode(waiting),
      expiresAt: now + DEVICE_LIFETIME_MS,
      state: "PENDING",
      intervalS: DEVICE_POLL_S,
      nextPollAt: now,
    };
    this.#grants.set(hashSecret(deviceCode), grant);
    return { deviceCode, grant };
  }

  /** The login a user code stands for while it waits; capitals, spaces and hyphens do not matter. */
  find(userCode: string): Grant | undefined {
    this.#sweep();
    const wanted = plain(userCode);
    return [...this.#grants.values()].find((grant) => grant.state === "PENDING" && plain(grant.userCode) === wanted);
  }

  poll(deviceCode: string): PollOutcome {
    this.#sweep();
    const hash = hashSecret(deviceCode);
    const grant = this.#grants.get(hash);
    if (grant === undefined) return { error: "expired_token" };
    if (grant.state === "DENIED") {
      this.#grants.delete(hash);
      return { error: "access_denied" };
    }
    if (typeof grant.state === "object") {
      this.#grants.delete(hash);
      return { secret: grant.state.secret, grant };
    }
    const now = this.#now();
    const early = now < grant.nextPollAt;
    if (early) grant.intervalS += DEVICE_SLOW_DOWN_S;
    grant.nextPollAt = now + grant.intervalS * 1000 - CLOCK_SLACK_MS;
    return { error: early ? "slow_down" : "authorization_pending" };
  }

  #userCode(waiting: readonly Grant[]): string {
    for (;;) {
      let code = "";
      while (code.length < USER_CODE_CHARS) {
        for (const byte of this.#random(USER_CODE_CHARS)) {
          // 240 is the largest multiple of 20 in a byte: no letter is likelier than another.
          if (byte < 240 && code.length < USER_CODE_CHARS) code += USER_CODE_ALPHABET[byte % 20];
        }
      }
      const shown = `${code.slice(0, 4)}-${code.slice(4)}`;
      if (!waiting.some(({ userCode }) => userCode === shown)) return shown;
    }
  }

  #sweep(): void {
    const now = this.#now();
    for (const [hash, grant] of this.#grants) if (grant.expiresAt <= now) this.#grants.delete(hash);
  }
}

/** A poll this much too early is on time: timers and networks are not exact. */
const CLOCK_SLACK_MS = 200;

function plain(userCode: string): string {
  return userCode.toUpperCase().replace(/[^A-Z]/g, "");
}
