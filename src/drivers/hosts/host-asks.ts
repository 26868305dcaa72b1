/** The bodies of the platform's calls, checked: names in them become paths of this machine. */
import { z } from "zod";
import { AGENT_START_ENV_MAX, FETCHED_LAYER_MAX_BYTES } from "../../domain/agent-limits.ts";
import { hostShare, type LayerTicket } from "../../domain/host-protocol.ts";
import type { RegistryLogin } from "../../domain/registry.ts";
import type { WorkerImage, WorkerSpec } from "../worker-driver.ts";

const id = z.string().regex(/^[\w-]{1,100}$/);
const digest = z.string().regex(/^[0-9a-f]{64}$/);
/** Below a build's source: never above it. */
const inside = z
  .string()
  .max(4_000)
  .refine((file) => !file.startsWith("/") && !file.split("/").includes(".."), "leads out of its folder");
const folder = z.string().regex(/^[\w-]{1,200}$/);
const words = z.array(z.string().max(10_000)).max(1_000);
const volume = z.looseObject({ app: folder, environment: folder, name: folder });

/** Of a build, or of what the container image `imageName` runs by itself. */
const image = z
  .looseObject({
    endpointId: id,
    endpointName: z.string().max(300),
    buildId: id.or(z.literal("")),
    sourceLayer: digest.or(z.literal("")),
    dependencyLayer: digest.nullable(),
    baseDependencies: z.array(z.string().max(500)).max(1_000),
    pythonVersion: z.string().regex(/^(3\.\d{1,2})?$/),
    handler: inside,
    imageName: z.string().max(500),
    systemDependencies: z.array(z.string().max(500)).max(1_000),
    imageSteps: z.array(z.unknown()).max(1_000),
    bootType: z.enum(["SVCBOOT", "OFF"]),
    pulls: z.enum(["command", "image"]).optional(),
    program: z.object({ entrypoint: words, command: words }).optional(),
    volumes: z.array(volume).max(100),
    cache: volume.optional(),
  })
  .refine(
    ({ pulls, buildId, sourceLayer, pythonVersion }) =>
      pulls === "image" || (buildId !== "" && sourceLayer !== "" && pythonVersion !== ""),
    "an image without a build has to pull its jobs",
  )
  .transform((value) => value as unknown as WorkerImage);

const spec = z
  .looseObject({
    workerId: id,
    token: z.string().max(500),
    revision: z.string().max(200),
    image,
    env: z.record(z.string(), z.string()).refine((env) => Object.keys(env).length <= AGENT_START_ENV_MAX),
    maxConcurrency: z.int().positive(),
    share: hostShare.optional(),
    dial: z
      .array(z.string().regex(/^[\w.:[\]-]{1,300}$/))
      .max(64)
      .optional(),
  })
  .transform((value) => value as unknown as WorkerSpec);

const ticket = z.object({
  digest,
  bytes: z.int().positive().max(FETCHED_LAYER_MAX_BYTES),
  ticket: z.string().max(1_000),
  bucketUrl: z
    .url({ protocol: /^https?$/ })
    .max(8_000)
    .optional(),
}) satisfies z.ZodType<LayerTicket>;

const login = z.object({
  username: z.string().max(1_000),
  password: z.string().max(100_000),
}) satisfies z.ZodType<RegistryLogin>;

const SCHEMAS = {
  prepare: z.object({ image, layers: z.array(ticket).max(100), login: login.optional() }),
  start: z.object({ spec, share: hostShare }),
  /** Of a platform that borrows: who lends says which share. */
  lend: z.object({ spec }),
  stop: z.object({ workerId: id, graceMs: z.number().nonnegative() }),
  retire: z.object({ endpointId: id, revision: z.string().max(200) }),
  unused: z.object({ keep: z.array(image).max(100_000), before: z.number() }),
};

/** Throws what is wrong with it. */
export function askBody<C extends keyof typeof SCHEMAS>(call: C, body: Buffer): z.infer<(typeof SCHEMAS)[C]> {
  return SCHEMAS[call].parse(JSON.parse(body.toString("utf8"))) as z.infer<(typeof SCHEMAS)[C]>;
}
