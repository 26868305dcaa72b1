/** The file that says which pools of Pods there are (`SVC_POOLS_FILE`); docs/reference/pools.md describes it. */
import { readFileSync } from "node:fs";
import { z } from "zod";
import { SvcError } from "../domain/errors.ts";
import { gpuProduct } from "../domain/gpu.ts";
import { POOLS_MAX } from "../domain/limits.ts";
import { type Pool, TRUSTS } from "../domain/pools.ts";

const dnsName = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?$/, "has other characters than a-z, 0-9 and -, or is too long");
const strings = z.record(z.string(), z.string());
const count = (max: number) => z.int().min(0).max(max);

const pool = z.strictObject({
  name: dnsName,
  /** vCPUs of a Pod. */
  cpu: z.number().positive().max(1024),
  /** GB of a Pod that workers have. */
  memory: z.number().positive().max(16_384),
  gpu: count(64).default(0),
  /** A member of GpuType or a product string; with gpu. */
  gpuType: z.string().default(""),
  gpuResource: z.string().default("nvidia.com/gpu"),
  /** Claims of devices (resource.k8s.io), in place of gpuResource: as in a Pod, each with a name. */
  resourceClaims: z.array(z.looseObject({ name: z.string().min(1) })).default([]),
  warm: count(1_000).default(0),
  /** Seconds. */
  idle: z.number().min(0).max(604_800).default(600),
  max: count(10_000).default(10),
  trust: z.enum(TRUSTS).default("environment"),
  runtimeClassName: z.string().optional(),
  priorityClassName: z.string().optional(),
  nodeSelector: strings.default({}),
  tolerations: z.array(z.record(z.string(), z.unknown())).default([]),
  labels: strings.default({}),
  annotations: strings.default({}),
});

const file = z.strictObject({
  /** Of the installation; several may be in one namespace. */
  release: dnsName,
  /** A ConfigMap of the release: whoever deletes it deletes the Pods. */
  owner: z.string().min(1),
  /** Base URL of the platform as Pods reach it. */
  platform: z.url({ protocol: /^https?$/ }),
  serviceAccount: z.string().min(1),
  image: z.string().min(1),
  imagePullPolicy: z.enum(["Always", "IfNotPresent", "Never"]).default("IfNotPresent"),
  imagePullSecrets: z.array(z.string()).default([]),
  /** Seconds that running workers may take when a Pod is told to end. */
  grace: z.number().min(0).max(86_400).default(600),
  /** GB of a Pod's disk for layers and scratch files. */
  disk: z.number().positive().max(65_536).default(20),
  /** Variables of the agents, such as of a package index or a proxy; workers have none of them. */
  env: strings.default({}),
  /** Where the platform's volumes are; absent: Pods have none. */
  volumes: z
    .strictObject({
      /** A PersistentVolumeClaim, which the platform has at SVC_VOLUMES_DIR. */
      claim: z.string().min(1),
      /** Labels of the platform's Pods: where the volume is on one node alone, Pods with volumes run on that. */
      beside: strings.optional(),
    })
    .optional(),
  pools: z.array(pool).min(1).max(POOLS_MAX),
});

export type PoolsFile = z.output<typeof file>;
export type PodPool = PoolsFile["pools"][number];

/** Throws CONFIG_INVALID with every wrong line at once. */
export function readPoolsFile(name: string): PoolsFile {
  const bad = (message: string) =>
    new SvcError("CONFIG_INVALID", message, { where: name, help: "docs/reference/pools.md describes the file." });
  let given: unknown;
  try {
    given = JSON.parse(readFileSync(name, "utf8"));
  } catch (error) {
    throw bad(`SVC_POOLS_FILE: ${(error as Error).message}`);
  }
  const { data, error } = file.safeParse(given);
  if (data === undefined)
    throw bad(error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n"));
  const problems = data.pools.flatMap(({ name: pool, gpu, gpuType }, index) => [
    ...(data.pools.findIndex((one) => one.name === pool) < index
      ? [`pools.${index}.name: "${pool}" is there twice`]
      : []),
    ...(gpu > 0 && gpuProduct(gpuType) === undefined
      ? [`pools.${index}.gpuType: "${gpuType}" is no GPU of the catalogue; write a member of GpuType such as NVIDIA_L4`]
      : []),
  ]);
  if (problems.length > 0) throw bad(problems.join("\n"));
  return data;
}

export function poolOf({ name, cpu, memory, gpu, gpuType, warm, idle, max, trust }: PodPool, volumes: boolean): Pool {
  const product = gpu > 0 ? (gpuProduct(gpuType) ?? "") : "";
  const size = { vcpus: cpu, memoryGb: memory, gpus: gpu, gpuProduct: product };
  return { name, ...size, warm, idleMs: idle * 1_000, max, trust, volumes };
}
