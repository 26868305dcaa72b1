/**
 * Logins as rows, so that one may be opened at one platform of a database, approved at another and polled at a third. Time is the
 * database's. A key on its way to its machine is sealed, and its row goes as it is handed out.
 */
import { type Kysely, sql } from "kysely";
import { hashSecret, type KeyScope } from "../domain/api-key.ts";
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
import type { SealedText } from "../lib/sealed-text.ts";
import type { Postgres } from "../postgres/postgres.ts";
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
import type { Tables } from "./tables.ts";

const ALIVE = "expires_at > clock_timestamp()";
const ms = (value: number) => `interval '${value} milliseconds'`;
/** Two at once may both find room: the bound is for floods. */
const OPEN = `INSERT INTO device_logins (hash, user_code, machine, scopes, address, state, interval_s, next_poll_at, expires_at)
  SELECT $1, $2, $3, $4, $5, 'PENDING', ${DEVICE_POLL_S}, clock_timestamp(), clock_timestamp() + ${ms(DEVICE_LIFETIME_MS)}
  WHERE (SELECT count(*) FROM device_logins WHERE ${ALIVE}) < ${DEVICE_GRANTS_MAX}
    AND (SELECT count(*) FROM device_logins WHERE address = $5 AND ${ALIVE}) < ${DEVICE_GRANTS_PER_ADDRESS_MAX}
  ON CONFLICT (user_code) DO NOTHING RETURNING hash`;
const DECIDED = `DELETE FROM device_logins WHERE hash = $1 AND ${ALIVE} AND state IN ('APPROVED', 'DENIED')
  RETURNING state, sealed, scopes`;
const WAITS = `WITH before AS (
    SELECT hash, clock_timestamp() < next_poll_at AS early FROM device_logins WHERE hash = $1 AND ${ALIVE} FOR UPDATE)
  UPDATE device_logins SET interval_s = interval_s + CASE WHEN early THEN ${DEVICE_SLOW_DOWN_S} ELSE 0 END,
    next_poll_at = clock_timestamp() - ${ms(POLL_SLACK_MS)}
      + make_interval(secs => interval_s + CASE WHEN early THEN ${DEVICE_SLOW_DOWN_S} ELSE 0 END)
  FROM before WHERE device_logins.hash = before.hash RETURNING early`;
const WRONG = `INSERT INTO device_guesses AS kept (address, count, until)
  VALUES ($1, 1, clock_timestamp() + ${ms(DEVICE_GUESS_WINDOW_MS)})
  ON CONFLICT (address) DO UPDATE SET
    count = CASE WHEN kept.until <= clock_timestamp() THEN 1 ELSE least(kept.count + 1, ${DEVICE_GUESSES_MAX + 1}) END,
    until = CASE WHEN kept.until <= clock_timestamp() THEN excluded.until ELSE kept.until END
  RETURNING count`;

export class PostgresLogins implements LoginStore {
  readonly #postgres: Postgres;
  readonly #seal: SealedText;
  readonly #random: (bytes: number) => Uint8Array;

  constructor(postgres: Postgres, seal: SealedText, random: (bytes: number) => Uint8Array) {
    this.#postgres = postgres;
    this.#seal = seal;
    this.#random = random;
  }

  async open({ machine, scopes, address }: LoginRequest) {
    await this.#postgres.query("DELETE FROM device_logins WHERE expires_at <= clock_timestamp()");
    const deviceCode = newDeviceCode(this.#random);
    for (;;) {
      const code = newUserCode(this.#random);
      const values = [hashSecret(deviceCode), code, machine, scopes.join(" "), address];
      if ((await this.#postgres.query(OPEN, values)).rowCount === 1) return { deviceCode, userCode: shownCode(code) };
      const { rows } = await this.#postgres.query("SELECT 1 FROM device_logins WHERE user_code = $1", [code]);
      if (rows.length === 0) throw tooManyLogins();
    }
  }

  async find(userCode: string): Promise<WaitingLogin | undefined> {
    const { rows } = await this.#postgres.query<{ code: string; machine: string; scopes: string; address: string }>(
      `SELECT user_code AS code, machine, scopes, address FROM device_logins
         WHERE user_code = $1 AND state = 'PENDING' AND ${ALIVE}`,
      [plainCode(userCode)],
    );
    const [row] = rows;
    return row && { userCode: shownCode(row.code), machine: row.machine, scopes: scopesOf(row), address: row.address };
  }

  async claim(userCode: string): Promise<boolean> {
    return this.#change(userCode, "PENDING", "APPROVING");
  }

  async settle(userCode: string, secret: string | undefined): Promise<void> {
    const sealed = secret === undefined ? null : this.#seal.seal(secret, labelOf(plainCode(userCode)));
    await this.#change(userCode, "APPROVING", sealed === null ? "PENDING" : "APPROVED", sealed);
  }

  async deny(userCode: string): Promise<void> {
    await this.#change(userCode, "PENDING", "DENIED");
  }

  async poll(deviceCode: string): Promise<PollOutcome> {
    const hash = hashSecret(deviceCode);
    const { rows } = await this.#postgres.query<DecidedRow>(`${DECIDED}, user_code AS code`, [hash]);
    const [decided] = rows;
    if (decided?.state === "DENIED") return { error: "access_denied" };
    if (decided !== undefined) {
      const secret = this.#opened(decided);
      return secret === undefined ? { error: "expired_token" } : { secret, scopes: scopesOf(decided) };
    }
    const [waits] = (await this.#postgres.query<{ early: boolean }>(WAITS, [hash])).rows;
    if (waits === undefined) return { error: "expired_token" };
    return { error: waits.early ? "slow_down" : "authorization_pending" };
  }

  async wrongCode(address: string): Promise<void> {
    await this.#postgres.query(
      `DELETE FROM device_guesses WHERE until <= clock_timestamp()
         OR (SELECT count(*) FROM device_guesses) > ${DEVICE_GUESSERS_MAX}`,
    );
    const { rows } = await this.#postgres.query<{ count: number }>(WRONG, [address]);
    if (rows[0]!.count > DEVICE_GUESSES_MAX) throw tooManyWrongCodes();
  }

  /** Undefined: the key that sealed it is gone, and it with that. */
  #opened({ sealed, code }: DecidedRow): string | undefined {
    try {
      return this.#seal.open(sealed!, labelOf(code));
    } catch {
      return undefined;
    }
  }

  async #change(userCode: string, from: string, to: string, sealed: string | null = null): Promise<boolean> {
    const { rowCount } = await this.#postgres.query(
      `UPDATE device_logins SET state = $3, sealed = $4 WHERE user_code = $1 AND state = $2 AND ${ALIVE}`,
      [plainCode(userCode), from, to, sealed],
    );
    return rowCount === 1;
  }
}

interface DecidedRow {
  readonly state: "APPROVED" | "DENIED";
  readonly sealed: string | null;
  readonly scopes: string;
  readonly code: string;
}

function labelOf(code: string): string {
  return `device login ${code}`;
}

/** Part of the transaction in which `anew` seals all else that is stored. */
export async function sealLoginsAnew(
  db: Kysely<Tables>,
  anew: (sealed: string, label: string) => string | undefined,
): Promise<void> {
  const approved = sql<{ readonly code: string; readonly sealed: string }>`SELECT user_code AS code, sealed
    FROM device_logins WHERE sealed IS NOT NULL AND ${sql.raw(ALIVE)} FOR UPDATE`;
  for (const { code, sealed } of (await approved.execute(db)).rows) {
    const renewed = anew(sealed, labelOf(code));
    if (renewed === undefined) continue;
    await sql`UPDATE device_logins SET sealed = ${renewed} WHERE user_code = ${code}`.execute(db);
  }
}

function scopesOf({ scopes }: { readonly scopes: string }): KeyScope[] {
  return scopes.split(" ") as KeyScope[];
}
