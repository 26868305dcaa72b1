/** Logins of an embedded platform, in memory and bounded: whoever asked simply asks again after a restart. */
import { hashSecret } from "../domain/api-key.ts";
import {
  DEVICE_GRANTS_MAX,
  DEVICE_GRANTS_PER_ADDRESS_MAX,
  DEVICE_GUESS_WINDOW_MS,
  DEVICE_GUESSERS_MAX,
  DEVICE_GUESSES_MAX,
  DEVICE_LIFETIME_MS,
  DEVICE_POLL_S,
  DEVICE_SLOW_DOWN_S,
} from "../domain/limits.ts";
import {
  type LoginRequest,
  type LoginStore,
  newDeviceCode,
  newUserCode,
  POLL_SLACK_MS,
  type PollOutcome,
  plainCode,
  shownCode,
  tooManyLogins,
  tooManyWrongCodes,
  type WaitingLogin,
} from "./logins.ts";

interface Login extends WaitingLogin {
  readonly expiresAt: number;
  state: "PENDING" | "APPROVING" | "DENIED" | { readonly secret: string };
  intervalS: number;
  nextPollAt: number;
}

export class MemoryLogins implements LoginStore {
  /** Milliseconds of a clock that nobody sets. */
  readonly #now: () => number;
  readonly #random: (bytes: number) => Uint8Array;
  /** By the hash of the device code. */
  readonly #logins = new Map<string, Login>();
  /** By network address. */
  readonly #wrong = new Map<string, { count: number; readonly until: number }>();

  constructor(now: () => number, random: (bytes: number) => Uint8Array) {
    this.#now = now;
    this.#random = random;
  }

  async open(request: LoginRequest) {
    this.#sweep();
    const waiting = [...this.#logins.values()];
    const sameAddress = waiting.filter(({ address }) => address === request.address).length;
    if (waiting.length >= DEVICE_GRANTS_MAX || sameAddress >= DEVICE_GRANTS_PER_ADDRESS_MAX) throw tooManyLogins();
    const deviceCode = newDeviceCode(this.#random);
    let userCode: string;
    do userCode = shownCode(newUserCode(this.#random));
    while (waiting.some((login) => login.userCode === userCode));
    const now = this.#now();
    this.#logins.set(hashSecret(deviceCode), {
      ...{ ...request, userCode, state: "PENDING" },
      expiresAt: now + DEVICE_LIFETIME_MS,
      intervalS: DEVICE_POLL_S,
      nextPollAt: now,
    });
    return { deviceCode, userCode };
  }

  async find(userCode: string): Promise<WaitingLogin | undefined> {
    const login = this.#in("PENDING", userCode);
    if (login === undefined) return undefined;
    const { machine, scopes, address } = login;
    return { userCode: login.userCode, machine, scopes, address };
  }

  async claim(userCode: string): Promise<boolean> {
    const login = this.#in("PENDING", userCode);
    if (login !== undefined) login.state = "APPROVING";
    return login !== undefined;
  }

  async settle(userCode: string, secret: string | undefined): Promise<void> {
    const login = this.#in("APPROVING", userCode);
    if (login !== undefined) login.state = secret === undefined ? "PENDING" : { secret };
  }

  async deny(userCode: string): Promise<void> {
    const login = this.#in("PENDING", userCode);
    if (login !== undefined) login.state = "DENIED";
  }

  async poll(deviceCode: string): Promise<PollOutcome> {
    this.#sweep();
    const hash = hashSecret(deviceCode);
    const login = this.#logins.get(hash);
    if (login === undefined) return { error: "expired_token" };
    if (login.state === "DENIED") {
      this.#logins.delete(hash);
      return { error: "access_denied" };
    }
    if (typeof login.state === "object") {
      this.#logins.delete(hash);
      return { secret: login.state.secret, scopes: login.scopes };
    }
    const now = this.#now();
    const early = now < login.nextPollAt;
    if (early) login.intervalS += DEVICE_SLOW_DOWN_S;
    login.nextPollAt = now + login.intervalS * 1000 - POLL_SLACK_MS;
    return { error: early ? "slow_down" : "authorization_pending" };
  }

  async wrongCode(address: string): Promise<void> {
    const now = this.#now();
    const entry = this.#wrong.get(address);
    if (entry !== undefined && entry.until > now) {
      if (entry.count >= DEVICE_GUESSES_MAX) throw tooManyWrongCodes();
      entry.count++;
      return;
    }
    if (this.#wrong.size >= DEVICE_GUESSERS_MAX) this.#wrong.clear();
    this.#wrong.set(address, { count: 1, until: now + DEVICE_GUESS_WINDOW_MS });
  }

  #in(state: "PENDING" | "APPROVING", userCode: string): Login | undefined {
    this.#sweep();
    const wanted = plainCode(userCode);
    return [...this.#logins.values()].find((login) => login.state === state && plainCode(login.userCode) === wanted);
  }

  #sweep(): void {
    const now = this.#now();
    for (const [hash, login] of this.#logins) if (login.expiresAt <= now) this.#logins.delete(hash);
  }
}
