/**
 * One connection to PostgreSQL: the first host of the list that takes writes, with TLS as the URL asks for it. `pg` is
 * loaded here and nowhere else, so that a platform without PostgreSQL does without it.
 */
import { readFileSync } from "node:fs";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import type { Client, ClientConfig } from "pg";
import { POSTGRES_END_MAX_MS, POSTGRES_VERSION_MIN } from "../domain/limits.ts";
import { type DatabaseUrl, hostName, type PostgresHost } from "./database-url.ts";
import { PostgresRefusal, postgresProblem } from "./problems.ts";

/**
 * What ends a statement or a transaction on the server is turned off for the platform's sessions: a batch that waits is waited for,
 * and given up by this side alone.
 */
const TIMEOUTS = `'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout', 'idle_session_timeout'`;
const KEEP_ALIVE_AFTER_MS = 10_000;
/** Where the network was cut, the server hears nothing of this side's end: a session of one that is gone would keep its locks for two hours. */
const KEEP_ALIVES = `('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')`;
const INT8 = 20;
const NUMERIC = 1700;

export interface PostgresAccess {
  readonly url: DatabaseUrl;
  /** Read at every connection, so that it may change. */
  readonly passwordFile: string | undefined;
}

/** Resolves a client that takes writes. Rejects with an SvcError that says in words why there is none. */
export async function connectPostgres(access: PostgresAccess): Promise<Client> {
  const problems = [];
  for (const host of access.url.hosts) {
    try {
      return await connectHost(access, host);
    } catch (error) {
      problems.push(postgresProblem(error, access.url, hostName(host)));
    }
  }
  // Of several, one that is only away says less than one that refuses.
  throw problems.find((problem) => problem.code !== "DATABASE_AWAY") ?? problems[0]!;
}

async function connectHost(access: PostgresAccess, host: PostgresHost): Promise<Client> {
  if (access.url.sslMode !== "prefer" || host.host.startsWith("/")) return open(access, host, tlsOf(access.url, host));
  try {
    return await open(access, host, tlsOf(access.url, host));
  } catch (error) {
    if (!isWithoutTls(error)) throw error;
    return await open(access, host, false);
  }
}

function isWithoutTls(error: unknown): boolean {
  return error instanceof Error && error.message === "The server does not support SSL connections";
}

async function open(access: PostgresAccess, { host, port }: PostgresHost, ssl: ClientConfig["ssl"]): Promise<Client> {
  const { default: pg } = await import("pg");
  const { url } = access;
  const password = passwordOf(access);
  const client = new pg.Client({
    ...{ host, port, user: url.user, database: url.database, ssl },
    ...(password !== undefined && { password }),
    ...(url.options !== "" && { options: url.options }),
    application_name: url.applicationName,
    connectionTimeoutMillis: url.connectTimeoutMs,
    enableChannelBinding: url.channelBinding,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
    types: {
      // Milliseconds, counts and numbers of rows: all below 2^53.
      getTypeParser: (oid, format) =>
        oid === INT8 || oid === NUMERIC ? Number : pg.types.getTypeParser(oid, format as "text"),
    } as ClientConfig["types"],
  });
  // Also after it was lost: whoever waits for a statement hears of that there.
  client.on("error", () => {});
  try {
    await client.connect();
    await prepare(client, url.connectTimeoutMs);
    return client;
  } catch (error) {
    endInOrder(client).catch(() => {});
    throw error;
  }
}

/** Ends the connection with a word to the server, or, where that does not close its end in time, without. Never rejects. */
export async function endInOrder(client: Client): Promise<void> {
  const late = setTimeout(() => endNow(client), POSTGRES_END_MAX_MS);
  await client.end().catch(() => {});
  clearTimeout(late);
}

/** Ends the connection now, whatever the server does: what waits for it there fails. */
export function endNow(client: Client): void {
  client.end().catch(() => {});
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

/** A session for the platform's use. A server may stand still, or be cut off, after it has greeted: it has `maxMs` once more. */
async function prepare(client: Client, maxMs: number): Promise<void> {
  let isSilent = false;
  const late = setTimeout(() => {
    isSilent = true;
    endNow(client);
  }, maxMs);
  const asked = client.query<{ version: number; readonly: string }>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('transaction_read_only') AS readonly,
       (SELECT count(set_config(name, '0', false)) FROM pg_settings WHERE name IN (${TIMEOUTS}) AND setting <> '0') AS unset,
       (SELECT count(set_config(name, wanted, false)) FROM (VALUES ${KEEP_ALIVES}) AS own (name, wanted)
         WHERE current_setting(name, true)::int NOT BETWEEN 1 AND wanted::int) AS kept`,
  );
  const { rows } = await asked
    .catch((cause) => {
      throw isSilent ? new PostgresRefusal("silent", `${maxMs / 1000}`, { cause }) : cause;
    })
    .finally(() => clearTimeout(late));
  const { version, readonly } = rows[0]!;
  const major = Math.floor(version / 10_000);
  if (major < POSTGRES_VERSION_MIN) throw new PostgresRefusal("too old", `${major}`);
  if (readonly === "on") throw new PostgresRefusal("read-only");
}

function tlsOf(url: DatabaseUrl, { host }: PostgresHost): ConnectionOptions | false {
  if (url.sslMode === "disable" || host.startsWith("/")) return false;
  const checks = url.sslMode === "verify-ca" || url.sslMode === "verify-full";
  const file = (path: string) => {
    try {
      return readFileSync(path);
    } catch (cause) {
      throw new PostgresRefusal("unreadable", path, { cause });
    }
  };
  return {
    rejectUnauthorized: checks,
    // Of an address too, which TLS itself never names.
    checkServerIdentity: (_name, certificate) =>
      url.sslMode === "verify-full" ? checkServerIdentity(host, certificate) : undefined,
    ...(checks && url.sslRootCert !== undefined && { ca: file(url.sslRootCert) }),
    ...(url.sslCert !== undefined && { cert: file(url.sslCert) }),
    ...(url.sslKey !== undefined && { key: file(url.sslKey) }),
  };
}

function passwordOf({ url, passwordFile }: PostgresAccess): string | undefined {
  if (passwordFile === undefined) return url.password;
  try {
    return readFileSync(passwordFile, "utf8").replace(/\r?\n$/, "");
  } catch (cause) {
    throw new PostgresRefusal("unreadable", passwordFile, { cause });
  }
}
