/** The platform's configuration, read once at the edge. Every key is described in docs/reference/config.md. */
import { isIP } from "node:net";
import path from "node:path";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { gpuProduct } from "../domain/gpu.ts";
import { HOST_LABEL, HOST_LABEL_RULE } from "../domain/host.ts";
import {
  BODIES_KEPT_MAX_BYTES,
  FAILED_RETENTION_MS,
  GATEWAYS_MAX,
  LOG_KEPT_LEAST_MS,
  LOG_KEPT_MOST_MS,
  LOG_KEPT_MS,
  PLATFORM_PORT_DEFAULT,
  QUEUED_MAX_JOBS,
  RATE_PUBLIC_PER_WINDOW,
  REQUEST_TIMEOUT_MS,
  RUN_RETENTION_MS,
  RUNSYNC_RETENTION_MS,
  RUNSYNC_WAIT_RETENTION_MS,
  USER_NUMBER_END,
  WORKER_QUOTA,
  WORKER_UIDS_DEFAULT,
} from "../domain/limits.ts";
import { RATE_LIMITS_DEFAULT, type RateLimits } from "../gateway/rate-limits.ts";
import { dialledAddress, hostName, publicAddress, tlsAddress } from "./addresses.ts";
import { type DatabaseConfig, databaseKeys, readDatabase, readReplica, refuseWithShards } from "./database-config.ts";
import { flag } from "./flag.ts";
import { type PoolsConfig, poolsKeys, readPools } from "./pools-config.ts";
import { readS3, type S3Config, s3Keys } from "./s3-config.ts";
import { readSecretKeysConfig, type SecretKeysConfig, secretKeyKeys } from "./secret-keys.ts";

const MB = 1024 * 1024;
/** What opens the bucket, the database and secrets is not for installers, which run code of packages. */
const SECRET = /^(SVC_S3_|SVC_DATABASE_|SVC_SECRET_KEY|SVC_FIRST_KEY|PGPASS|AWS_)/;

const number = (min: number, max: number) => {
  const error = `must be a number from ${min} to ${max}`;
  return z.coerce.number({ error }).min(min, error).max(max, error);
};
const wholeNumber = (min: number, max: number) =>
  number(min, max).refine(Number.isInteger, `must be a whole number from ${min} to ${max}`);

const retention = (defaultMs: number) => number(0, 31_536_000).default(defaultMs / 1000);

/** 0, 1 for the defaults, or `run=500,status=100` for other numbers of some classes. */
const rateLimits = z.string().transform((text, context): RateLimits | undefined => {
  if (text === "0" || text === "false") return undefined;
  const limits: Record<string, number> = { ...RATE_LIMITS_DEFAULT };
  for (const pair of text === "1" || text === "true" ? [] : text.split(",")) {
    const [, name = "", value] = /^\s*(\w+)\s*=\s*(\d{1,9})\s*$/.exec(pair) ?? [];
    if (name in limits) limits[name] = Number(value);
    else context.addIssue(`"${pair}" is not CLASS=NUMBER; the classes are ${Object.keys(limits).join(", ")}`);
  }
  return limits as RateLimits;
});

/** Comma list of KEY=VALUE. */
const pairs = z.string().transform((text, context): Readonly<Record<string, string>> => {
  const parts = text.split(",").filter((part) => part.trim() !== "");
  const bad = parts.filter((part) => !/^[^=]+=./.test(part));
  for (const part of bad) context.addIssue(`"${part}" is not KEY=VALUE`);
  return Object.fromEntries(
    parts.map((part) => [part.slice(0, part.indexOf("=")).trim(), part.slice(part.indexOf("=") + 1).trim()]),
  );
});

/** FIRST-LAST, of users. */
const userNumbers = z.string().transform((text, context): [number, number] => {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(text) ?? [];
  if (Number(first) > 0 && Number(first) + 1 < Number(last) && Number(last) < USER_NUMBER_END) {
    return [Number(first), Number(last)];
  }
  context.addIssue(`"${text}" is not FIRST-LAST, numbers of at least three users`);
  return z.NEVER;
});

/** Comma list of absolute paths. */
const folders = z.string().transform((text, context): readonly string[] => {
  const paths = text.split(",").filter((part) => part.trim() !== "");
  for (const one of paths) {
    if (!path.isAbsolute(one) || path.normalize(one) === "/")
      context.addIssue(`"${one}" is not the absolute path of a folder`);
  }
  return paths;
});

/** Comma list of addresses and networks. */
const networks = z.string().transform((text, context): readonly string[] => {
  const parts = text.split(",").map((part) => part.trim());
  const all = parts.filter((part) => part !== "");
  for (const part of all) {
    const [address = "", prefix = "0"] = part.split("/");
    const bits = isIP(address) === 6 ? 128 : 32;
    if (isIP(address) === 0 || !/^\d{1,3}$/.test(prefix) || Number(prefix) > bits) {
      context.addIssue(`"${part}" is no address and no network such as 10.0.0.0/8`);
    }
  }
  return all;
});

/** Comma list of labels of a machine. */
const labels = z.string().transform((text, context): readonly string[] => {
  const all = text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  for (const one of all) if (!HOST_LABEL.test(one)) context.addIssue(`"${one}" is no label: ${HOST_LABEL_RULE}`);
  return all;
});

const gpuProducts = z.string().transform((text, context) =>
  text.split(",").flatMap((part) => {
    const product = gpuProduct(part.trim());
    if (product !== undefined) return [product];
    context.addIssue(`"${part.trim()}" is no GPU of the catalogue; write a member of GpuType such as NVIDIA_L4`);
    return [];
  }),
);

/** One line per key: the environment variable, its rule and its default. */
const schema = z.object({
  /** Directory with everything the platform keeps. */
  SVC_DATA_DIR: z.string().min(1),
  /** Directory of the volumes, by app, environment and name; default: volumes in the data directory. */
  SVC_VOLUMES_DIR: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
  /** Volumes lie at the paths of endpoints already, as in a Pod that was made with them. */
  SVC_VOLUMES_MOUNTED: flag.default(false),
  /** This is the agent of a Pod that a platform made: nobody installs anything there. */
  SVC_IN_POD: flag.default(false),
  SVC_HOST: z.string().default("127.0.0.1"),
  SVC_PORT: wholeNumber(0, 65535).default(PLATFORM_PORT_DEFAULT),
  /** Processes that take calls on the port, in front of the platform's own; 0: that takes them itself. */
  SVC_GATEWAYS: wholeNumber(0, GATEWAYS_MAX).default(0),
  /** Address under which callers reach the platform; default: http://<host>:<port>. */
  SVC_PUBLIC_URL: publicAddress.optional(),
  /** Proxies in front whose X-Forwarded-For is believed: comma list of addresses and networks. */
  SVC_TRUSTED_PROXIES: networks.default([]),
  /** Workers of other machines dial in here, by TLS. */
  SVC_WORKER_LISTEN: tlsAddress.optional(),
  /** Where they reach that port, when it is elsewhere than where the platform listens. */
  SVC_WORKER_PUBLIC: dialledAddress.optional(),
  /** Labels of the platform's own machine, for hosts= of endpoints: comma list. */
  SVC_HOST_LABELS: labels.default([]),
  /** Workers also run on the platform's own machine, not only on hosts that joined. */
  SVC_LOCAL_WORKERS: flag.default(true),
  /** Load-balanced endpoints also answer on https://<endpoint_id>.<domain>. */
  SVC_DOMAIN: hostName.default(""),
  /** normal: a 200 survives a killed platform; full: also a power loss. */
  SVC_DURABILITY: z.enum(["normal", "full"]).default("normal"),
  SVC_WORKER_QUOTA: wholeNumber(0, 100_000).default(WORKER_QUOTA),
  /** vCPUs promised for each one the machine has. */
  SVC_CPU_OVERCOMMIT: number(0.1, 1000).default(8),
  /** GB promised for each one the machine has. */
  SVC_MEMORY_OVERCOMMIT: number(0.1, 1000).default(2),
  /** Run GPU endpoints on the CPU of a machine without GPUs. */
  SVC_EMULATE_GPU: flag.default(false),
  /** Builds for the CPU alone, beside what the usual index has: the address of a package index, a folder of wheels, or "off" for none. Not given: where uv knows them. */
  SVC_CPU_WHEELS: z
    .string()
    .refine(
      (text) => text === "off" || path.isAbsolute(text) || URL.canParse(text),
      "is neither an address nor an absolute path, nor off",
    )
    .optional(),
  /** GPUs that the platform takes this machine to have: comma list of GpuType members or product strings. */
  SVC_EMULATED_GPUS: gpuProducts.default([]),
  /** MB that zygotes without workers may hold together. */
  SVC_ZYGOTE_MEMORY_MB: number(0, 1e9).optional(),
  SVC_REQUEST_TIMEOUT_MS: number(100, 86_400_000).default(REQUEST_TIMEOUT_MS),
  /** Interpreter for workers; default: the first python3 on the PATH. */
  SVC_PYTHON: z.string().optional(),
  /** Rate limits of the job routes; off by default on the embedded platform. */
  SVC_RATE_LIMITS: rateLimits.optional(),
  /** Calls without a key that one address may send to one endpoint in 10 s; 0: any number. */
  SVC_PUBLIC_RATE_LIMIT: wholeNumber(0, 1e9).default(RATE_PUBLIC_PER_WINDOW),
  /** Jobs of one endpoint that may wait; more are refused with 429. */
  SVC_QUEUE_LIMIT: wholeNumber(1, 1e9).default(QUEUED_MAX_JOBS),
  /** MB that the inputs, outputs and errors above 64 KiB of one endpoint's jobs may take together. */
  SVC_BODIES_LIMIT_MB: number(1, 1e9).default(BODIES_KEPT_MAX_BYTES / MB),
  /** How long results are kept: of /run, of /runsync, of /runsync?wait=, and at least of every failed job. */
  SVC_RUN_RETENTION_S: retention(RUN_RETENTION_MS),
  SVC_RUNSYNC_RETENTION_S: retention(RUNSYNC_RETENTION_MS),
  SVC_RUNSYNC_WAIT_RETENTION_S: retention(RUNSYNC_WAIT_RETENTION_MS),
  SVC_FAILED_RETENTION_S: retention(FAILED_RETENTION_MS),
  /** How long what workers print is kept in the bucket. */
  SVC_LOG_RETENTION_S: number(LOG_KEPT_LEAST_MS / 1000, LOG_KEPT_MOST_MS / 1000).optional(),
  /** How far workers are kept from the machine and each other (docs/reference/config.md). */
  SVC_ISOLATION: z.enum(["none", "standard", "strict"]).default("standard"),
  /** Numbers of the users that workers run as where the platform is root, a user for each endpoint. */
  SVC_WORKER_UIDS: userNumbers.default([...WORKER_UIDS_DEFAULT]),
  /** Folders of this machine that every worker may read and write: comma list. */
  SVC_WORKER_PATHS: folders.default([]),
  /** What workers run in: processes of this machine, or containers of its Docker engine (docs/reference/containers.md). */
  SVC_DRIVER: z.enum(["process", "docker"]).default("process"),
  /** Workers run in another container of this Pod, whose image is an endpoint's: the folder that both share, and products of its GPUs. */
  SVC_POD_DIR: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
  SVC_POD_GPUS: gpuProducts.default([]),
  /** Images of endpoints without an own one; default: those that `svc platform images build` makes. */
  SVC_CPU_IMAGE: z.string().min(1).optional(),
  SVC_GPU_IMAGE: z.string().min(1).optional(),
  /** A network of the engine that containers join; default: one that the platform makes. */
  SVC_DOCKER_NETWORK: z.string().default(""),
  /** Names that containers can look up: comma list of NAME=ADDRESS. */
  SVC_DOCKER_HOSTS: pairs.default({}),
  /** Labels put on every container besides the platform's own: comma list of KEY=VALUE. */
  SVC_DOCKER_LABELS: pairs.default({}),
  /** Runtime of the engine that containers run with, e.g. "runsc" for gVisor; default: the engine's own. */
  SVC_DOCKER_RUNTIME: z.string().default(""),
  /** GET /metrics: not at all, for everybody, or with a key of the scope read. */
  SVC_METRICS: z.enum(["off", "on", "key"]).default("key"),
  /** Webhooks may reach private addresses. */
  SVC_WEBHOOK_PRIVATE: flag.default(false),
  /** File with the API key that counts while there is none that can do everything; default: one is made, and shown. */
  SVC_FIRST_KEY_FILE: z.string().refine(path.isAbsolute, "is not an absolute path").optional(),
  ...secretKeyKeys,
  ...poolsKeys,
  ...databaseKeys,
  ...s3Keys,
});

export const CONFIG_KEYS = Object.keys(schema.shape);

export interface Config {
  readonly dataDir: string;
  readonly volumesDir: string;
  readonly volumesMounted: boolean;
  readonly inPod: boolean;
  readonly host: string;
  readonly port: number;
  /** Processes that take calls; 0: the platform's own does. */
  readonly gateways: number;
  readonly publicUrl: string | undefined;
  readonly trustedProxies: readonly string[];
  /** Undefined: workers of this machine only. */
  readonly workerListen: { readonly host: string; readonly port: number } | undefined;
  /** Where other machines reach it; undefined: there. */
  readonly workerPublic: { readonly host: string; readonly port: number } | undefined;
  /** Of this machine. */
  readonly hostLabels: readonly string[];
  /** Workers run on this machine too. */
  readonly localWorkers: boolean;
  readonly domain: string;
  readonly durability: "normal" | "full";
  readonly workerQuota: number;
  readonly cpuOvercommit: number;
  readonly memoryOvercommit: number;
  readonly emulateGpu: boolean;
  readonly cpuWheels: string | undefined;
  /** Product strings. */
  readonly emulatedGpus: readonly string[];
  readonly zygoteMemoryMb: number | undefined;
  readonly requestTimeoutMs: number;
  readonly python: string | undefined;
  /** The environment without what is secret there, for pip and uv: PATH, proxies, and the user's own settings of them. */
  readonly installerEnv: Readonly<Record<string, string | undefined>>;
  /** Undefined: none. */
  readonly rateLimits: RateLimits | undefined;
  readonly publicCallsMax: number;
  readonly queueLimit: number;
  readonly bodiesLimitBytes: number;
  /** Milliseconds that results are kept. */
  readonly retention: Readonly<Record<"runMs" | "runsyncMs" | "runsyncWaitMs" | "failedMs", number>>;
  /** Milliseconds that logs in the bucket are kept. */
  readonly logsKeptMs: number;
  readonly isolation: "none" | "standard" | "strict";
  /** First and last. */
  readonly workerUids: readonly [number, number];
  readonly workerPaths: readonly string[];
  readonly driver: "process" | "docker" | "pod";
  /** A folder that the containers of this Pod share, and products of the GPUs that the workers' has. */
  readonly pod: { readonly folder: string; readonly gpus: readonly string[] };
  readonly docker: {
    /** Undefined: the images that `svc platform images build` makes. */
    readonly images: { readonly cpu: string | undefined; readonly gpu: string | undefined };
    /** "" makes one. */
    readonly network: string;
    /** Address by name. */
    readonly hosts: Readonly<Record<string, string>>;
    readonly labels: Readonly<Record<string, string>>;
    /** "" is the engine's own. */
    readonly runtime: string;
  };
  readonly metrics: "off" | "on" | "key";
  /** Traces are collected: OpenTelemetry's own variable says where. */
  readonly traces: boolean;
  readonly webhookPrivate: boolean;
  /** Keys of secrets that are kept elsewhere than in the data directory. */
  readonly secretKeys: SecretKeysConfig;
  /** File with the first API key; undefined: one is made. */
  readonly firstKeyFile: string | undefined;
  /** Pools of Pods; undefined: none. */
  readonly pools: PoolsConfig | undefined;
  /** Where the store is kept; undefined: in the data directory. */
  readonly database: DatabaseConfig | undefined;
  /** Where it listens for others on the same database; used only with one. */
  readonly replicaListen: { readonly host: string; readonly port: number };
  /** Where those reach it; undefined: there. */
  readonly replicaPublic: { readonly host: string; readonly port: number } | undefined;
  /** Where layers and large bodies are kept; undefined: on the disk. */
  readonly s3: S3Config | undefined;
}

/** Throws CONFIG_INVALID with every wrong key at once. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.fromEntries(CONFIG_KEYS.flatMap((key) => (env[key]?.trim() ? [[key, env[key]]] : [])));
  const parsed = schema.safeParse(given);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new SvcError("CONFIG_INVALID", lines.join("\n"), {
      help: "The keys are described in docs/reference/config.md.",
    });
  }
  const c = parsed.data;
  const config = Object.freeze({
    dataDir: c.SVC_DATA_DIR,
    volumesDir: c.SVC_VOLUMES_DIR ?? path.join(path.resolve(c.SVC_DATA_DIR), "volumes"),
    volumesMounted: c.SVC_VOLUMES_MOUNTED,
    inPod: c.SVC_IN_POD,
    host: c.SVC_HOST,
    port: c.SVC_PORT,
    gateways: c.SVC_GATEWAYS,
    publicUrl: c.SVC_PUBLIC_URL,
    trustedProxies: c.SVC_TRUSTED_PROXIES,
    workerListen: c.SVC_WORKER_LISTEN,
    workerPublic: c.SVC_WORKER_PUBLIC,
    hostLabels: c.SVC_HOST_LABELS,
    localWorkers: c.SVC_LOCAL_WORKERS,
    domain: c.SVC_DOMAIN,
    durability: c.SVC_DURABILITY,
    workerQuota: c.SVC_WORKER_QUOTA,
    cpuOvercommit: c.SVC_CPU_OVERCOMMIT,
    memoryOvercommit: c.SVC_MEMORY_OVERCOMMIT,
    emulateGpu: c.SVC_EMULATE_GPU,
    cpuWheels: c.SVC_CPU_WHEELS,
    emulatedGpus: c.SVC_EMULATED_GPUS,
    zygoteMemoryMb: c.SVC_ZYGOTE_MEMORY_MB,
    requestTimeoutMs: c.SVC_REQUEST_TIMEOUT_MS,
    python: c.SVC_PYTHON,
    installerEnv: withoutSecrets(env),
    rateLimits: c.SVC_RATE_LIMITS,
    publicCallsMax: c.SVC_PUBLIC_RATE_LIMIT,
    queueLimit: c.SVC_QUEUE_LIMIT,
    bodiesLimitBytes: Math.floor(c.SVC_BODIES_LIMIT_MB * MB),
    retention: {
      runMs: c.SVC_RUN_RETENTION_S * 1000,
      runsyncMs: c.SVC_RUNSYNC_RETENTION_S * 1000,
      runsyncWaitMs: c.SVC_RUNSYNC_WAIT_RETENTION_S * 1000,
      failedMs: c.SVC_FAILED_RETENTION_S * 1000,
    },
    logsKeptMs: readLogsKept(c),
    isolation: c.SVC_ISOLATION,
    workerUids: c.SVC_WORKER_UIDS,
    workerPaths: c.SVC_WORKER_PATHS,
    driver: c.SVC_POD_DIR === undefined ? c.SVC_DRIVER : ("pod" as const),
    pod: { folder: c.SVC_POD_DIR ?? "", gpus: c.SVC_POD_GPUS },
    docker: {
      images: { cpu: c.SVC_CPU_IMAGE, gpu: c.SVC_GPU_IMAGE },
      network: c.SVC_DOCKER_NETWORK,
      hosts: c.SVC_DOCKER_HOSTS,
      labels: c.SVC_DOCKER_LABELS,
      runtime: c.SVC_DOCKER_RUNTIME,
    },
    metrics: c.SVC_METRICS,
    traces: Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT),
    webhookPrivate: c.SVC_WEBHOOK_PRIVATE,
    secretKeys: readSecretKeysConfig(c),
    firstKeyFile: c.SVC_FIRST_KEY_FILE,
    pools: readPools(c, env, c.SVC_WORKER_LISTEN !== undefined),
    database: readDatabase(c),
    ...readReplica(c),
    s3: readS3(c),
  });
  refuseWithShards(config.database, config);
  return config;
}

/** Logs in files end with the room for them: nobody is to believe that they go by their age. */
function readLogsKept(given: z.output<typeof schema>): number {
  const { SVC_LOG_RETENTION_S: keptS = LOG_KEPT_MS / 1000 } = given;
  const isCounted = given.SVC_DATABASE_URL !== undefined && given.SVC_S3_BUCKET !== undefined;
  if (given.SVC_LOG_RETENTION_S === undefined || isCounted) return keptS * 1000;
  throw new SvcError("CONFIG_INVALID", "SVC_LOG_RETENTION_S: counts only with SVC_DATABASE_URL and SVC_S3_BUCKET", {
    help: "Without both, logs are files of a fixed size (docs/operate/object-storage.md).",
  });
}

function withoutSecrets(env: Readonly<Record<string, string | undefined>>): Config["installerEnv"] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !SECRET.test(name)));
}
