/**
 * Where PostgreSQL is, as a connection URL says it (libpq's form, with several hosts):
 *
 *   postgres://user:password@host:port,host:port/database?sslmode=verify-full&sslrootcert=/ca.pem
 */
import { userInfo } from "node:os";
import path from "node:path";
import {
  POSTGRES_CONNECT_DEFAULT_S,
  POSTGRES_CONNECT_MAX_S,
  POSTGRES_HOSTS_MAX,
  POSTGRES_PORT_DEFAULT,
} from "../domain/limits.ts";
import { hostPort } from "../lib/host-port.ts";

const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full"] as const;
export type SslMode = (typeof SSL_MODES)[number];

export interface PostgresHost {
  /** A name, an address, or the absolute folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
}

export interface DatabaseUrl {
  /** At least one; they are tried in order until one takes writes. */
  readonly hosts: readonly PostgresHost[];
  readonly database: string;
  readonly user: string;
  /** Undefined: none, or that of the file. */
  readonly password: string | undefined;
  readonly sslMode: SslMode;
  /** A file of certificates, PEM; undefined: those that Node trusts. */
  readonly sslRootCert: string | undefined;
  /** Files of the certificate that this side proves itself with, PEM. */
  readonly sslCert: string | undefined;
  readonly sslKey: string | undefined;
  /** The password is sent only to a server that proves by it that it holds the certificate. */
  readonly channelBinding: boolean;
  readonly connectTimeoutMs: number;
  readonly applicationName: string;
  /** Command-line options that the server starts the session with; "" for none. */
  readonly options: string;
}

/** The platform always writes: it needs a server that takes writes whatever the URL asks for. */
const TARGETS = ["any", "read-write", "primary"];
/** Of libpq and others, about what does not arise here. */
const IGNORED = ["gssencmode", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "pgbouncer"];
const KNOWN = [
  ...["host", "port", "user", "password", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding"],
  ...["target_session_attrs", "connect_timeout", "application_name", "options"],
];

/** Throws an Error whose message completes "SVC_DATABASE_URL: …" and has no word of the password. */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const { authority, database, parameters } = split(text);
  for (const name of parameters.keys()) {
    if (KNOWN.includes(name) || IGNORED.includes(name)) continue;
    throw new Error(`"${name}" is no parameter that svc knows; it knows ${KNOWN.join(", ")}`);
  }
  const at = authority.lastIndexOf("@");
  const [name = "", ...rest] = authority.slice(0, Math.max(at, 0)).split(":");
  const user = (parameters.get("user") ?? decoded(name, "user")) || accountName();
  const password = parameters.get("password") ?? decoded(rest.join(":"), "password");
  const applicationName = parameters.get("application_name") ?? "svc";
  // It is sent ahead of everything in a form that ends at a NUL, and the server cuts it at 63 bytes.
  if (!/^[\x20-\x7e]{1,63}$/.test(applicationName))
    throw new Error("application_name must be 1 to 63 plain characters");
  const target = parameters.get("target_session_attrs") ?? "read-write";
  if (!TARGETS.includes(target)) {
    throw new Error(`target_session_attrs must be one of ${TARGETS.join(", ")}: the platform writes`);
  }
  const url = {
    hosts: hostsOf(parameters.get("host") ?? authority.slice(at + 1), parameters.get("port")),
    database: (parameters.get("dbname") ?? decoded(database, "database")) || user,
    user,
    ...tlsOf(parameters),
    connectTimeoutMs: 1000 * secondsOf(parameters.get("connect_timeout")),
    applicationName,
    options: parameters.get("options") ?? "",
  };
  // Not among what is printed of it.
  return Object.defineProperty(url as DatabaseUrl, "password", { value: password || undefined });
}

/** How the database is called in words: without the user, and never with the password. */
export function databaseName({ hosts, database }: DatabaseUrl): string {
  return `PostgreSQL ${hosts.map(hostName).join(",")}/${database}`;
}

export function hostName({ host, port }: PostgresHost): string {
  if (path.isAbsolute(host)) return port === POSTGRES_PORT_DEFAULT ? host : `${host}:${port}`;
  return hostPort({ host, port });
}

/** No URL of the standard: that one knows no lists of hosts. */
function split(text: string) {
  const [, authority, database = "", query = ""] =
    /^postgres(?:ql)?:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text) ?? [];
  if (authority === undefined) {
    throw new Error(
      "must be postgres://USER:PASSWORD@HOST:PORT/DATABASE; in a password, write / ? # as %2F %3F %23, and % as %25",
    );
  }
  const parameters = new Map<string, string>();
  for (const pair of query.split("&").filter((one) => one !== "")) {
    const [name = "", ...value] = pair.split("=");
    const known = decoded(name, "name of a parameter");
    parameters.set(known, decoded(value.join("="), known));
  }
  return { authority, database, parameters };
}

function decoded(text: string, what: string): string {
  try {
    const plain = decodeURIComponent(text);
    if (!plain.includes("\0")) return plain;
  } catch {}
  throw new Error(`the ${what} is not percent-encoded as it should be: write % as %25`);
}

function hostsOf(list: string, ports: string | undefined): readonly PostgresHost[] {
  const names = list.split(",");
  if (names.length > POSTGRES_HOSTS_MAX) throw new Error(`names more than ${POSTGRES_HOSTS_MAX} hosts`);
  const portOf = ports?.split(",") ?? [];
  return names.map((name, index) => {
    const [, bracketed, plain, own] = /^(?:\[([\da-fA-F:.%]+)\]|([^:[\]@]*))(?::(\d{1,5}))?$/.exec(name) ?? [];
    const host = bracketed ?? (plain === undefined ? undefined : decoded(plain, "host"));
    const port = Number(own ?? portOf[index] ?? portOf[0] ?? POSTGRES_PORT_DEFAULT);
    if (host === undefined || !Number.isInteger(port) || port < 1 || port > 65_535) {
      // It might be the end of a password with an @ in it.
      throw new Error("a host in it is not HOST or HOST:PORT; in a password, write @ as %40 and : as %3A");
    }
    return { host: host || "localhost", port };
  });
}

function tlsOf(parameters: ReadonlyMap<string, string>) {
  const sslMode = (parameters.get("sslmode") ?? "prefer") as SslMode;
  if (!SSL_MODES.includes(sslMode)) throw new Error(`sslmode must be one of ${SSL_MODES.join(", ")}`);
  const file = (name: string) => {
    const value = parameters.get(name);
    if (value === undefined || value === "" || (name === "sslrootcert" && value === "system")) return undefined;
    if (!path.isAbsolute(value)) throw new Error(`${name} must be the absolute path of a file`);
    return value;
  };
  const sslRootCert = file("sslrootcert");
  return {
    // As libpq has it: whoever names a certificate wants it checked.
    sslMode: sslMode === "require" && sslRootCert !== undefined ? ("verify-ca" as const) : sslMode,
    sslRootCert,
    sslCert: file("sslcert"),
    sslKey: file("sslkey"),
    channelBinding: ["prefer", "require"].includes(parameters.get("channel_binding") ?? ""),
  };
}

function secondsOf(text: string | undefined): number {
  if (text === undefined || text === "0") return POSTGRES_CONNECT_DEFAULT_S;
  const seconds = Number(text);
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= POSTGRES_CONNECT_MAX_S) return seconds;
  throw new Error(`connect_timeout must be 1 to ${POSTGRES_CONNECT_MAX_S} seconds`);
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    return "postgres"; // A user without an account.
  }
}
