/**
 * Logins that wait for someone to approve them (RFC 8628), and wrong codes that were tried. They live for minutes.
 *
 *   open ─▶ PENDING ──claim──▶ APPROVING ──approve──▶ APPROVED ──poll──▶ (key handed out once, gone)
 *              │  ▲────release─────┘
 *              ├──deny─────────▶ DENIED ────poll──▶ (gone)
 *              └──10 minutes───▶ (gone)
 */
import type { KeyScope } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";

export interface LoginRequest {
  /** The machine that asks, for the approver and for the key's name. */
  readonly machine: string;
  readonly scopes: readonly KeyScope[];
  /** Network address it came from. */
  readonly address: string;
}

export interface WaitingLogin extends LoginRequest {
  readonly userCode: string;
}

export type PollOutcome =
  | { readonly secret: string; readonly scopes: readonly KeyScope[] }
  | { readonly error: "authorization_pending" | "slow_down" | "expired_token" | "access_denied" };

export interface LoginStore {
  /** Throws RATE_LIMITED while too many wait. */
  open(request: LoginRequest): Promise<{ readonly deviceCode: string; readonly userCode: string }>;
  /** The login a user code stands for while it waits; capitals, spaces and hyphens do not matter. */
  find(userCode: string): Promise<WaitingLogin | undefined>;
  /** From here on nobody else decides on it; false when somebody has. */
  claim(userCode: string): Promise<boolean>;
  /** Of one that was claimed: `secret` is handed out once; undefined: it waits again. */
  settle(userCode: string, secret: string | undefined): Promise<void>;
  deny(userCode: string): Promise<void>;
  poll(deviceCode: string): Promise<PollOutcome>;
  /** Counts a wrong code. Throws RATE_LIMITED for an address that guesses. */
  wrongCode(address: string): Promise<void>;
}

/** No vowels: no words; no digits and letters that look alike. */
const USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ";
const USER_CODE_CHARS = 8;
const DEVICE_CODE_BYTES = 32;
/** A poll this much too early is on time: timers and networks are not exact. */
export const POLL_SLACK_MS = 200;

type Random = (bytes: number) => Uint8Array;

export function newDeviceCode(random: Random): string {
  return Buffer.from(random(DEVICE_CODE_BYTES)).toString("base64url");
}

export function newUserCode(random: Random): string {
  let code = "";
  while (code.length < USER_CODE_CHARS) {
    for (const byte of random(USER_CODE_CHARS)) {
      // 240 is the largest multiple of 20 in a byte: no letter is likelier than another.
      if (byte < 240 && code.length < USER_CODE_CHARS) code += USER_CODE_ALPHABET[byte % 20];
    }
  }
  return code;
}

/** As a person reads it. */
export function shownCode(code: string): string {
  return `${code.slice(0, 4)}-${code.slice(4)}`;
}

/** As it is compared, of what a person typed. */
export function plainCode(typed: string): string {
  return typed.toUpperCase().replace(/[^A-Z]/g, "");
}

export function tooManyLogins(): SvcError {
  return new SvcError("RATE_LIMITED", "Too many logins wait for an approval.", { help: "Try again in some minutes." });
}

export function tooManyWrongCodes(): SvcError {
  return new SvcError("RATE_LIMITED", "Too many wrong codes.", { help: "Wait some minutes." });
}
