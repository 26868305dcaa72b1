/**
 * The shape of svc_manifest.json, for manifests that come from outside. Apart from the types, so that a build, which
 * makes its manifest itself, does not load the validation library.
 * Described for readers in docs/reference/manifest.md.
 */
import { z } from "zod";
import { BASE_PACKAGES, isBaseRequirement } from "./base-requirement.ts";
import { BOOT_TYPES, NO_RETRIES, SCALER_TYPES } from "./endpoint.ts";

const baseRequirement = z
  .string()
  .refine(isBaseRequirement, `must be one of ${BASE_PACKAGES.join(", ")}, perhaps with a version ("numpy>=2")`);

const digest = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hex");

const jsonSchema = z.record(z.string(), z.unknown());

export const manifestParameter = z.object({
  name: z.string(),
  /** Source text of the annotation; "" without one. */
  annotation: z.string().default(""),
  /** Source text of the default value; null when the parameter is required. */
  default: z.string().nullable().default(null),
  /** JSON Schema of the annotation, with the default where that is a literal; {} where only Python can tell. */
  schema: jsonSchema.default({}),
});

export const manifestFunction = z.object({
  name: z.string(),
  /** Dotted module path from the project's root. */
  module: z.string(),
  kind: z.enum(["function", "class"]).default("function"),
  async: z.boolean().default(false),
  generator: z.boolean().default(false),
  /** Inputs that a call of it works on at once; absent where it is not batched. */
  batchSize: z.number().optional(),
  doc: z.string().default(""),
  parameters: z.array(manifestParameter).default([]),
  /** Public methods, when kind is class. */
  methods: z.array(z.string()).default([]),
  /** Of each method of a class, and of `__call__`, which a job reaches that names none. */
  methodParameters: z.record(z.string(), z.array(manifestParameter)).optional(),
  /** JSON Schema of what a call returns, all chunks of a generator; {} where only Python can tell. */
  returns: jsonSchema.optional(),
  methodReturns: z.record(z.string(), jsonSchema).optional(),
});

const imageStep = z.union([
  /** Packages of Debian. */
  z.strictObject({ apt: z.array(z.string()) }),
  /** A line of /bin/sh, run as root. */
  z.strictObject({ run: z.string() }),
  /** Variables. */
  z.strictObject({ env: z.record(z.string(), z.string()) }),
]);

const server = z.object({
  /** Program and arguments; `{port}` in them becomes the port. Empty: the image's own, which pulls its jobs. */
  command: z.array(z.string()),
  /** 0: a free one for each worker. */
  port: z.number(),
  /** Path of a GET that shows that it is ready; "": a connection is enough. */
  readyPath: z.string(),
  /** Seconds until it must be ready. */
  readyTimeout: z.number(),
  /** It pulls jobs of a queue-based endpoint by itself. */
  protocol: z.literal("pull").optional(),
});

export const manifestResource = z.object({
  is_load_balanced: z.literal(true).optional(),
  imageName: z.string(),
  workersMin: z.number(),
  workersMax: z.number(),
  gpuIds: z.string(),
  functions: z.array(manifestFunction).min(1),

  /** The command that answers its requests; without it, functions do. */
  server: server.optional(),
  /** Packages of Debian: "ffmpeg". */
  systemDependencies: z.array(z.string()).default([]),
  /** What is built on the image, before the system dependencies. */
  imageSteps: z.array(imageStep).default([]),
  /** Selectors of `gpu=` in the order of preference: groups and members of GpuType. */
  gpuPreference: z.array(z.string()).default([]),
  /** GPUs of one worker, or below 1 the part of a GPU that is its own. */
  gpuCount: z.number(),
  instanceIds: z.string(),
  idleTimeout: z.number(),
  maxConcurrency: z.number(),
  executionTimeoutMs: z.number(),
  scalerType: z.enum(SCALER_TYPES),
  scalerValue: z.number(),
  svcBootType: z.enum(BOOT_TYPES),
  networkVolumeId: z.string(),
  /** Origins of browser pages that may call it: "*", a comma list, "" for none. */
  cors: z.string().default(""),
  /** Milliseconds a request may wait for a worker; 0: the platform's own time. */
  requestTimeoutMs: z.number().default(0),
  /** When it is called by itself; null: never. */
  schedule: z
    .object({
      /** Five fields; "" where everyMs stands. */
      cron: z.string(),
      everyMs: z.number(),
      timezone: z.string(),
      input: z.record(z.string(), z.unknown()),
      missed: z.enum(["skip", "once"]),
      overlap: z.enum(["queue", "skip"]),
    })
    .nullable()
    .default(null),
  /** A job whose function raised is tried again so often, after retryDelayMs × retryBackoff each time, at most retryMaxDelayMs. */
  retriesMax: z.number().default(NO_RETRIES.retriesMax),
  retryDelayMs: z.number().default(NO_RETRIES.retryDelayMs),
  retryBackoff: z.number().default(NO_RETRIES.retryBackoff),
  retryMaxDelayMs: z.number().default(NO_RETRIES.retryMaxDelayMs),
  /** Routes that answer without a key: "*" for all, lines of `METHOD /path`, "" for none. */
  publicRoutes: z.string().default(""),
  /** Labels of the machines that its workers may run on, a comma list: any of these; "" for every machine. */
  hosts: z.string().default(""),
  /** Names only: values travel beside the manifest and are never written into an artifact. */
  envNames: z.array(z.string()),
  /** "3.11": the interpreter the dependencies were installed for. */
  pythonVersion: z.string().regex(/^3\.\d+$/),
  /** Generated entry file, relative to the source layer: "handlers/<name>.py". */
  handler: z.string().regex(/^handlers\/[a-z0-9_-]+\.py$/),
  /** As declared. */
  dependencies: z.array(z.string()),
  /** Declared requirements that the base image or base layers provide, e.g. ["numpy"]. */
  baseDependencies: z.array(baseRequirement),
  /** Layer with the installed dependencies, or null when there are none. */
  dependencyLayer: digest.nullable(),
  /** Of the files of the source layer that its code may need; without it, any change of the layer is one of its code. */
  codeDigest: digest.optional(),
});

export const manifestSchema = z.object({
  resources: z.record(z.string(), manifestResource),
  routes: z.record(z.string(), z.record(z.string(), z.string())),
  /** Version of this file's shape. */
  version: z.literal(1),
  svcVersion: z.string(),
  /** Layer with the project's files under src/ and the generated files under handlers/. */
  sourceLayer: digest,
});
