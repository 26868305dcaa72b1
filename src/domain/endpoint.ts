/**
 * An endpoint's settings: what a declaration says, what the manifest carries and what the record keeps, with one
 * set of names, defaults and rules. Units are in the comments; the names are those of the management API.
 */
import { isOrigin, ORIGIN_HELP, originsOf } from "./cors.ts";
import { SvcError } from "./errors.ts";
import { gpuCountProblem, unknownGpuId } from "./gpu.ts";
import { HOST_LABEL, HOST_LABEL_RULE, hostLabels } from "./host.ts";
import {
  EXECUTION_TIMEOUT_DEFAULT_MS,
  EXECUTION_TIMEOUT_MAX_MS,
  EXECUTION_TIMEOUT_MIN_MS,
  IDLE_TIMEOUT_DEFAULT_S,
  IDLE_TIMEOUT_MAX_S,
  IDLE_TIMEOUT_MIN_S,
  MAX_CONCURRENCY_DEFAULT,
  MAX_CONCURRENCY_LIMIT,
  REQUEST_TIMEOUT_MAX_MS,
  REQUEST_TIMEOUT_MIN_MS,
  RETRIES_MAX,
  RETRY_BACKOFF_MAX,
  RETRY_DELAY_MAX_MS,
  SCALER_VALUE_DEFAULT,
  WORKERS_MAX_DEFAULT,
  WORKERS_MAX_LIMIT,
  WORKERS_MIN_DEFAULT,
} from "./limits.ts";
import { MACHINE_TYPE_DEFAULT, machineType, SIZES } from "./machine-type.ts";
import { volumesProblems } from "./volume.ts";

export const SCALER_TYPES = ["QUEUE_DELAY", "REQUEST_COUNT"] as const;
export type ScalerType = (typeof SCALER_TYPES)[number];

/** SVCBOOT forks workers from a zygote; OFF starts a fresh interpreter for each. */
export const BOOT_TYPES = ["SVCBOOT", "OFF"] as const;
export type BootType = (typeof BOOT_TYPES)[number];

export type EndpointKind = "queue" | "load-balanced";

export interface EndpointSettings {
  readonly workersMin: number;
  readonly workersMax: number;
  /** Seconds a worker stays when idle. */
  readonly idleTimeout: number;
  /** GPU groups as in gpu.ts; "" for a CPU endpoint. */
  readonly gpuIds: string;
  /** GPUs of one worker, or below 1 the part of a GPU that is its own. */
  readonly gpuCount: number;
  /** CPU machine type or size; "" for a GPU endpoint. */
  readonly instanceIds: string;
  /** Jobs or requests one worker handles at once. */
  readonly maxConcurrency: number;
  readonly executionTimeoutMs: number;
  readonly scalerType: ScalerType;
  /** QUEUE_DELAY: seconds a job may wait. REQUEST_COUNT: requests per worker. */
  readonly scalerValue: number;
  readonly svcBootType: BootType;
  readonly imageName: string;
  /** Its volumes, as in volume.ts; "" for none. */
  readonly networkVolumeId: string;
  readonly locations: string;
  /** Origins of browser pages that may call a load-balanced endpoint: "*", a comma list, or "" for none. */
  readonly cors: string;
  /** How long a load-balanced request may wait for a worker; 0: the platform's own time. */
  readonly requestTimeoutMs: number;
  /** How often a job whose function raised is tried again; 0: never. */
  readonly retriesMax: number;
  /** Milliseconds before the second attempt; before each further one `retryBackoff` times as long, */
  readonly retryDelayMs: number;
  readonly retryBackoff: number;
  /** at most so long. */
  readonly retryMaxDelayMs: number;
  /** Routes of a load-balanced endpoint that answer without a key, as in public-routes.ts; "" for none. */
  readonly publicRoutes: string;
  /** Labels of machines that its workers may run on, a comma list: any of these; "" for every machine. */
  readonly hosts: string;
}

export const CPU_IMAGE = "svc/worker-cpu:latest";
export const GPU_IMAGE = "svc/worker-gpu:latest";

/** The other three count when there are retries. */
export const NO_RETRIES = {
  retriesMax: 0,
  retryDelayMs: 1_000,
  retryBackoff: 2,
  retryMaxDelayMs: 300_000,
};

/** Defaults of everything a declaration leaves out. */
export function defaultSettings(kind: EndpointKind, gpuIds = ""): EndpointSettings {
  return {
    workersMin: WORKERS_MIN_DEFAULT,
    workersMax: WORKERS_MAX_DEFAULT,
    idleTimeout: IDLE_TIMEOUT_DEFAULT_S,
    gpuIds,
    gpuCount: 1,
    instanceIds: gpuIds === "" ? MACHINE_TYPE_DEFAULT : "",
    maxConcurrency: MAX_CONCURRENCY_DEFAULT,
    executionTimeoutMs: EXECUTION_TIMEOUT_DEFAULT_MS,
    scalerType: kind === "queue" ? "QUEUE_DELAY" : "REQUEST_COUNT",
    scalerValue: SCALER_VALUE_DEFAULT,
    svcBootType: "SVCBOOT",
    imageName: gpuIds === "" ? CPU_IMAGE : GPU_IMAGE,
    networkVolumeId: "",
    locations: "",
    cors: "",
    requestTimeoutMs: 0,
    ...NO_RETRIES,
    publicRoutes: "",
    hosts: "",
  };
}

/** Every rule the settings break, as sentences; empty when all hold. */
export function settingsProblems(settings: EndpointSettings): string[] {
  const problems: string[] = [];
  const whole = (name: keyof EndpointSettings, value: number, min: number, max: number, unit = "") => {
    if (Number.isInteger(value) && value >= min && value <= max) return;
    problems.push(`${name} must be a whole number from ${min} to ${max}${unit}, not ${value}.`);
  };
  whole("workersMin", settings.workersMin, 0, WORKERS_MAX_LIMIT);
  whole("workersMax", settings.workersMax, 0, WORKERS_MAX_LIMIT);
  whole("idleTimeout", settings.idleTimeout, IDLE_TIMEOUT_MIN_S, IDLE_TIMEOUT_MAX_S, " seconds");
  const gpus = gpuCountProblem(settings.gpuCount);
  if (gpus !== undefined) problems.push(`gpuCount must be ${gpus}, not ${settings.gpuCount}.`);
  whole("maxConcurrency", settings.maxConcurrency, 1, MAX_CONCURRENCY_LIMIT);
  whole("executionTimeoutMs", settings.executionTimeoutMs, EXECUTION_TIMEOUT_MIN_MS, EXECUTION_TIMEOUT_MAX_MS, " ms");
  whole("scalerValue", settings.scalerValue, 1, 100_000);
  if (settings.requestTimeoutMs !== 0) {
    whole("requestTimeoutMs", settings.requestTimeoutMs, REQUEST_TIMEOUT_MIN_MS, REQUEST_TIMEOUT_MAX_MS, " ms");
  }
  whole("retriesMax", settings.retriesMax, 0, RETRIES_MAX);
  whole("retryDelayMs", settings.retryDelayMs, 0, RETRY_DELAY_MAX_MS, " ms");
  whole("retryMaxDelayMs", settings.retryMaxDelayMs, 0, RETRY_DELAY_MAX_MS, " ms");
  if (!(settings.retryBackoff >= 1 && settings.retryBackoff <= RETRY_BACKOFF_MAX)) {
    problems.push(`retryBackoff must be a number from 1 to ${RETRY_BACKOFF_MAX}, not ${settings.retryBackoff}.`);
  }
  for (const origin of originsOf(settings.cors)) {
    if (!isOrigin(origin)) problems.push(`cors names ${JSON.stringify(origin)}, which is no origin: ${ORIGIN_HELP}`);
  }
  problems.push(...volumesProblems(settings.networkVolumeId));
  const label = hostLabels(settings.hosts).find((each) => !HOST_LABEL.test(each));
  if (label !== undefined) problems.push(`hosts names ${JSON.stringify(label)}: ${HOST_LABEL_RULE}.`);
  if (settings.workersMin > settings.workersMax) {
    problems.push(`workersMin (${settings.workersMin}) must not be larger than workersMax (${settings.workersMax}).`);
  }
  if (!SCALER_TYPES.includes(settings.scalerType))
    problems.push(`scalerType must be one of ${SCALER_TYPES.join(", ")}.`);
  if (!BOOT_TYPES.includes(settings.svcBootType)) problems.push(`svcBootType must be one of ${BOOT_TYPES.join(", ")}.`);
  if (settings.gpuIds !== "" && settings.instanceIds !== "") problems.push("Give gpuIds or instanceIds, not both.");
  if (settings.gpuIds === "" && settings.instanceIds === "")
    problems.push("Give gpuIds, or instanceIds for a CPU endpoint.");
  if (settings.gpuIds !== "") {
    const unknown = unknownGpuId(settings.gpuIds);
    if (unknown !== undefined) problems.push(`gpuIds names an unknown GPU group: ${unknown}.`);
  }
  if (settings.instanceIds !== "" && machineType(settings.instanceIds) === undefined) {
    problems.push(
      `instanceIds names an unknown machine type: ${settings.instanceIds}. Any size is <vCPU>-<GB>, as in 16-64. ${SIZES}`,
    );
  }
  return problems;
}

/** Why such an endpoint can have no retries; undefined when it can. */
export function retriesProblem(
  kind: EndpointKind,
  functions: readonly { readonly name: string; readonly generator?: boolean }[],
): { readonly message: string; readonly help: string } | undefined {
  if (kind !== "queue") {
    const message =
      "retries are for jobs of queue-based endpoints: a load-balanced request has one caller, who waits for its answer.";
    return { message, help: "Leave retries= out, and let the caller send the request again." };
  }
  const generator = functions.find((each) => each.generator);
  if (generator === undefined) return undefined;
  const message = `${generator.name}() is a generator: its chunks may be with the caller already when it raises, so it is not tried again.`;
  return { message, help: "Leave retries= out, or return a list." };
}

/** Throws INVALID_SETTING with all problems at once. */
export function checkSettings(name: string, settings: EndpointSettings): void {
  const problems = settingsProblems(settings);
  if (problems.length > 0) throw new SvcError("INVALID_SETTING", `Endpoint "${name}": ${problems.join(" ")}`);
}
