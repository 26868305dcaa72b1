/** What PostgreSQL and the way to it say when they refuse, in words: what happened, where, what to do next. */
import { SvcError } from "../domain/errors.ts";
import { POSTGRES_VERSION_MIN } from "../domain/limits.ts";
import { lackOf, storageFull } from "../domain/storage.ts";
import { type DatabaseUrl, databaseName } from "./database-url.ts";

/** What this side finds unfit about a server or its own files. `detail`: the version, or the file. */
export class PostgresRefusal extends Error {
  readonly reason: "too old" | "read-only" | "unreadable" | "silent" | "unconfirmed" | "closed";
  readonly detail: string;

  constructor(reason: PostgresRefusal["reason"], detail = "", options?: ErrorOptions) {
    super(reason, options);
    this.reason = reason;
    this.detail = detail;
  }
}

const CROWDED = "53300";
/** Not there now, and perhaps soon: the server starts, stops, fails over, or has no free connection. */
const AWAY_STATES = new Set(["57P01", "57P02", "57P03", "57P04", "57P05", CROWDED, "25006", "08P01"]);
/** Something else than the platform ended the statement, its wait for a lock, or its transaction: it may be sent again. */
const ENDED_STATES = new Set(["57014", "55P03", "25P03", "25P04"]);
const AWAY_ERRNO = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EAI_AGAIN",
]);
const LOST =
  /^Connection terminated|timeout expired|^Client (has encountered|was closed)|not queryable|server closed|server conn crashed/i;
const CERTIFICATE = /certificate|CERT_|ERR_TLS|UNABLE_TO_|DEPTH_ZERO/;

interface Failure {
  /** SQLSTATE, or errno. */
  readonly code?: string;
  readonly message: string;
}

/** What the server says beside its answer. `routine`: where in its code. */
export interface Notice {
  readonly routine: string | undefined;
}

/** Whether the connection that failed so is of no use any more. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof PostgresRefusal) return true;
  const { code = "", message } = failureOf(error);
  return (
    code.startsWith("08") ||
    AWAY_STATES.has(code) ||
    ENDED_STATES.has(code) ||
    AWAY_ERRNO.has(code) ||
    LOST.test(message)
  );
}

/** Whether the server's state is the reason, not the statement: a lost connection, a missing right, no room. */
export function isOfServer(error: unknown): boolean {
  const { code = "" } = failureOf(error);
  return (
    isConnectionLost(error) ||
    code === "42501" ||
    code === "3F000" ||
    code.startsWith("53") ||
    lackOf(error) !== undefined
  );
}

/**
 * Whether this notice says that nobody waits for the standby any more: the commit that is reported as done is on the primary, and
 * nobody knows whether it would survive that. Told by where it comes from, for its text is in the server's language.
 */
export function isUnconfirmed(notice: Notice): boolean {
  return notice.routine === "SyncRepWaitForLSN";
}

/** The server, or its user, has as many connections as it may. */
export function isCrowded(error: unknown): boolean {
  return failureOf(error instanceof SvcError ? error.cause : error).code === CROWDED;
}

/** A broken constraint: uniqueness, reference, not null, check. */
export function isConstraintError(error: unknown): boolean {
  return (failureOf(error).code ?? "").startsWith("23");
}

/** `error` as a user reads it. `where`: the host that it came from, if it is known. Others than failures of the database pass as they are. */
export function postgresProblem(error: unknown, url: DatabaseUrl, where = databaseName(url)): SvcError {
  if (error instanceof SvcError) return error;
  const [code, message, help] = problemOf(error, url, where);
  return new SvcError(code, message, { help, where: databaseName(url), cause: error });
}

type Problem = readonly [
  code: "DATABASE_AWAY" | "DATABASE_REFUSED" | "STORAGE_FULL" | "SHUTTING_DOWN",
  message: string,
  help: string,
];

function problemOf(error: unknown, url: DatabaseUrl, where: string): Problem {
  if (error instanceof PostgresRefusal) return refusalOf(error, where);
  const lack = lackOf(error);
  if (lack === "database") {
    const { message, help } = storageFull(lack);
    return ["STORAGE_FULL", message, help!];
  }
  const { code = "", message } = failureOf(error);
  const who = `The user "${url.user}"`;
  switch (code) {
    case "28P01":
      return refused(`${where} does not accept the password of ${lower(who)}.`, PASSWORD);
    case "28000":
      return refused(`${where} does not let ${lower(who)} in: ${message}.`, ALLOW);
    case "3D000":
      return refused(
        `${where} has no database "${url.database}".`,
        `Make it: CREATE DATABASE … OWNER …; or name another in SVC_DATABASE_URL.`,
      );
    case "3F000":
    case "42501":
      return refused(`${who} may not create or use tables in the database "${url.database}" of ${where}.`, GRANT);
    case "25006":
      return away(`${where} is read-only.`, READ_ONLY);
    case "57014":
    case "55P03":
    case "25P03":
    case "25P04":
      return away(`${where} ended what the platform asked before it was done: ${message}.`, ENDED);
    case CROWDED:
      return away(
        `${where} has no connection free.`,
        "Raise its max_connections, or lower SVC_DATABASE_CONNECTIONS_MAX; the platform goes on trying.",
      );
    case "ENOTFOUND":
      return away(`The name of ${where} is not known.`, "Check the host in SVC_DATABASE_URL.");
  }
  if (message === "The server does not support SSL connections") {
    return refused(
      `${where} does not offer TLS, which sslmode=${url.sslMode} asks for.`,
      "Turn TLS on there, or write sslmode=disable where the way to it is private.",
    );
  }
  if (CERTIFICATE.test(`${code} ${message}`)) {
    return refused(
      `The certificate of ${where} is not trusted: ${message}.`,
      "Name the file of its authority: sslmode=verify-full&sslrootcert=/path/ca.pem.",
    );
  }
  if (/no password|password must be a string/i.test(message)) {
    return refused(`${where} asks for the password of ${lower(who)}, and none is given.`, PASSWORD);
  }
  if (/unsupported startup parameter/.test(message))
    return refused(
      `${where} does not take this connection: ${message}.`,
      "Leave that parameter out of SVC_DATABASE_URL.",
    );
  if (isConnectionLost(error)) return away(`${where} cannot be reached${reasonOf(code, message)}.`, AWAY);
  if (lack !== undefined) return away(`${where} cannot be reached: ${message}.`, AWAY);
  return refused(`${where} refuses: ${message.replace(/\.$/, "")}.`, "Look into the log of the server.");
}

const PASSWORD = "Check SVC_DATABASE_URL, or the file that SVC_DATABASE_PASSWORD_FILE names.";
const GRANT = "Make that user the owner of the database, or: GRANT CREATE, USAGE ON SCHEMA public TO ….";
const ALLOW =
  "Make that user there, and let it in from this machine in the server's pg_hba.conf; that may ask for sslmode=require.";
const READ_ONLY =
  "It is a standby, or its disk is protected. Name all its hosts in SVC_DATABASE_URL: the one that takes writes is found.";
const UNCONFIRMED =
  "Its wait for the standby was cancelled. Look whether it was done, and try again; check that the standby runs.";
const ENDED =
  "Let the server, or the pooler before it, have no time-outs for statements, locks and transactions of this user; the platform tries again.";
const AWAY = "Check that it runs and that SVC_DATABASE_URL is right; the platform goes on by itself when it is back.";

function refusalOf({ reason, detail, cause }: PostgresRefusal, where: string): Problem {
  switch (reason) {
    case "too old":
      return refused(
        `${where} is PostgreSQL ${detail}; svc needs ${POSTGRES_VERSION_MIN} or newer.`,
        "Upgrade the server.",
      );
    case "read-only":
      return away(`${where} is read-only.`, READ_ONLY);
    case "unreadable":
      return refused(
        `The file ${detail} cannot be read: ${(cause as Error).message}.`,
        "SVC_DATABASE_URL or SVC_DATABASE_PASSWORD_FILE names it.",
      );
    case "silent":
      return away(`${where} did not answer within ${detail} s.`, AWAY);
    case "unconfirmed":
      return away(`${where} did not say that its standby has what was written; it may be there.`, UNCONFIRMED);
    case "closed":
      return ["SHUTTING_DOWN", "The platform is shutting down.", "Call again when it is back."];
  }
}

function refused(message: string, help: string): Problem {
  return ["DATABASE_REFUSED", message, help];
}

function away(message: string, help: string): Problem {
  return ["DATABASE_AWAY", message, help];
}

function reasonOf(code: string, message: string): string {
  if (code === "ECONNREFUSED") return ": nothing listens there";
  if (code === "57P03") return ": it is starting or stopping";
  if (/timeout expired/.test(message)) return ": it did not answer in time";
  return /^Connection terminated/.test(message) ? "" : `: ${message}`;
}

function lower(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** Where a name has several addresses, the failure is one for each. */
function failureOf(error: unknown): Failure {
  if (error instanceof AggregateError && error.errors.length > 0) return failureOf(error.errors[0]);
  if (error instanceof SvcError && error.cause !== undefined) return failureOf(error.cause);
  if (error instanceof Error) return error as Failure;
  return { message: String(error) };
}
