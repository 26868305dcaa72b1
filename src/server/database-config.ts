/** The settings of PostgreSQL. */
import path from "node:path";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { POSTGRES_CONNECTIONS_DEFAULT, POSTGRES_CONNECTIONS_MAX, POSTGRES_CONNECTIONS_MIN } from "../domain/limits.ts";
import type { PostgresAccess } from "../postgres/connect.ts";
import { type DatabaseUrl, parseDatabaseUrl } from "../postgres/database-url.ts";
import { dialledAddress, tlsAddress } from "./addresses.ts";
import { flag } from "./flag.ts";

const connections = `must be a number from ${POSTGRES_CONNECTIONS_MIN} to ${POSTGRES_CONNECTIONS_MAX}`;

/** One line per key, as in config.ts. */
export const databaseKeys = {
  /** The store is kept in this PostgreSQL instead of in the data directory. */
  SVC_DATABASE_URL: z
    .string()
    .transform((text, context): DatabaseUrl => {
      try {
        return parseDatabaseUrl(text);
      } catch (error) {
        context.addIssue((error as Error).message);
        return z.NEVER;
      }
    })
    .optional(),
  /** The password of its user. */
  SVC_DATABASE_PASSWORD_FILE: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
  /** Connections that the platform holds at most. */
  SVC_DATABASE_CONNECTIONS_MAX: z.coerce
    .number({ error: connections })
    .int(connections)
    .min(POSTGRES_CONNECTIONS_MIN, connections)
    .max(POSTGRES_CONNECTIONS_MAX, connections)
    .default(POSTGRES_CONNECTIONS_DEFAULT),
  /** Short jobs whose callers wait may run before they are stored. */
  SVC_EARLY_HANDOUT: flag.default(true),
  /** Each platform on the database has some of the endpoints, and runs their workers; else one has all, and the others wait. */
  SVC_SHARE_SHARDS: flag.default(false),
  /** Where other platforms on the same database dial in, by TLS; default: a free port that only this machine reaches. */
  SVC_REPLICA_LISTEN: tlsAddress.optional(),
  /** Where they reach that, when it is elsewhere than where the platform listens. */
  SVC_REPLICA_PUBLIC: dialledAddress.optional(),
};

const ANY_HOST = new Set(["0.0.0.0", "::"]);

/** Throws CONFIG_INVALID. */
export function readReplica({ SVC_DATABASE_URL, SVC_REPLICA_LISTEN: listen, SVC_REPLICA_PUBLIC: reached }: Given) {
  const given = listen === undefined ? "SVC_REPLICA_PUBLIC" : "SVC_REPLICA_LISTEN";
  if (SVC_DATABASE_URL === undefined && (listen ?? reached) !== undefined) {
    throw new SvcError("CONFIG_INVALID", `${given}: counts only with SVC_DATABASE_URL`, { help: DESCRIBED });
  }
  if (listen === undefined && reached !== undefined) {
    throw new SvcError("CONFIG_INVALID", `${given}: counts only with SVC_REPLICA_LISTEN`, { help: DESCRIBED });
  }
  if (listen !== undefined && ANY_HOST.has(listen.host) && reached === undefined) {
    throw new SvcError("CONFIG_INVALID", `${given}: where others reach ${listen.host} has to be said`, {
      help: "Set SVC_REPLICA_PUBLIC=tls://HOST:PORT to this machine's address.",
    });
  }
  return { replicaListen: listen ?? { host: "127.0.0.1", port: 0 }, replicaPublic: reached };
}

const NO_BUCKET = "needs a bucket (SVC_S3_BUCKET): layers and large bodies must be where each platform finds them";
const DESCRIBED = "The keys are described in docs/reference/config.md.";

export interface DatabaseConfig {
  readonly access: PostgresAccess;
  readonly connectionsMax: number;
  readonly runsEarly: boolean;
  readonly sharesShards: boolean;
}

interface Beside {
  readonly gateways: number;
  readonly workerListen: { readonly host: string } | undefined;
  readonly workerPublic: object | undefined;
  readonly localWorkers: boolean;
  readonly s3: object | undefined;
}

/** What platforms that share their endpoints cannot have yet, or cannot be without. Throws CONFIG_INVALID. */
export function refuseWithShards(database: DatabaseConfig | undefined, config: Beside): void {
  if (!database?.sharesShards) return;
  const why =
    config.gateways > 0
      ? "cannot be used with SVC_GATEWAYS (--gateways): each platform that shares the endpoints takes calls in its own process. Leave SVC_GATEWAYS out, or set it to 0; where one process is too few, start a further platform on the database"
      : config.workerListen !== undefined
        ? whyNoMachines(config.workerListen, config)
        : config.s3 === undefined
          ? NO_BUCKET
          : undefined;
  if (why !== undefined) throw new SvcError("CONFIG_INVALID", `SVC_SHARE_SHARDS: ${why}`, { help: DESCRIBED });
}

function whyNoMachines(
  listen: NonNullable<Beside["workerListen"]>,
  { localWorkers, workerPublic, s3 }: Beside,
): string | undefined {
  if (localWorkers)
    return "with SVC_WORKER_LISTEN it needs SVC_LOCAL_WORKERS=0: all workers run on machines that joined (svc worker join), also beside a platform";
  if (ANY_HOST.has(listen.host) && workerPublic === undefined)
    return "with SVC_WORKER_LISTEN it needs SVC_WORKER_PUBLIC=tls://HOST:PORT: where workers reach this platform among the others";
  return s3 === undefined ? NO_BUCKET : undefined;
}

type Given = z.output<z.ZodObject<typeof databaseKeys>>;

/** Undefined without a URL. Throws CONFIG_INVALID. */
export function readDatabase(given: Given): DatabaseConfig | undefined {
  const { SVC_DATABASE_URL: url, SVC_DATABASE_PASSWORD_FILE: passwordFile, SVC_SHARE_SHARDS: sharesShards } = given;
  if (url !== undefined) {
    const { SVC_DATABASE_CONNECTIONS_MAX: connectionsMax, SVC_EARLY_HANDOUT: runsEarly } = given;
    return { access: { url, passwordFile }, connectionsMax, runsEarly, sharesShards };
  }
  if (sharesShards) {
    throw new SvcError("CONFIG_INVALID", "SVC_SHARE_SHARDS: counts only with SVC_DATABASE_URL", { help: DESCRIBED });
  }
  if (passwordFile === undefined) return undefined;
  throw new SvcError("CONFIG_INVALID", "SVC_DATABASE_PASSWORD_FILE: counts only with SVC_DATABASE_URL", {
    help: DESCRIBED,
  });
}
