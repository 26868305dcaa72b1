import type { TemplateContainer } from "../domain/container.ts";
import {
  type BootType,
  CPU_IMAGE,
  defaultSettings,
  type EndpointSettings,
  GPU_IMAGE,
  type ScalerType,
} from "../domain/endpoint.ts";
import { SvcError } from "../domain/errors.ts";
import { EXECUTION_TIMEOUT_DEFAULT_MS, SAVED_NAME_MAX_CHARS } from "../domain/limits.ts";

export interface EnvEntry {
  readonly key: string;
  readonly value: string;
}

/** As the schema has it: a field that is null counts as not given. */
export type TemplateInput = {
  readonly id?: string | null;
  readonly name?: string | null;
  readonly imageName?: string | null;
  readonly env?: readonly EnvEntry[] | null;
} & { readonly [field in keyof TemplateContainer]?: TemplateContainer[field] | readonly string[] | null };

/** The fields of EndpointInput that are settings. */
const SETTING_FIELDS = [
  "gpuIds",
  "gpuCount",
  "instanceIds",
  "idleTimeout",
  "locations",
  "networkVolumeId",
  "scalerType",
  "scalerValue",
  "workersMin",
  "workersMax",
  "svcBootType",
  "executionTimeoutMs",
  "maxConcurrency",
  "cors",
  "requestTimeoutMs",
  "retriesMax",
  "retryDelayMs",
  "retryBackoff",
  "retryMaxDelayMs",
] as const;
type SettingField = (typeof SETTING_FIELDS)[number];

/** As the schema has it, and what stands for settings in the words of others (compatible.graphql). */
export type EndpointInput = {
  readonly [field in Exclude<SettingField, "instanceIds"> | "id" | "name" | "templateId" | "imageName"]?:
    | string
    | number
    | null;
} & {
  readonly instanceIds?: string | readonly string[] | null;
  readonly networkVolumeIds?: unknown;
  readonly flashBootType?: string | null;
  readonly type?: string | null;
  /** In place of the template's; REST alone. */
  readonly dockerArgs?: string | null;
  readonly containerRegistryAuthId?: string | null;
  readonly template?: TemplateInput | null;
  readonly env?: readonly EnvEntry[] | null;
};

/** `volumes`: ids of network volumes, in place of networkVolumeId. */
export type GivenFields = Partial<Pick<EndpointSettings, SettingField | "imageName">> & {
  readonly id?: string;
  readonly name?: string;
  readonly templateId?: string;
  readonly template?: TemplateInput;
  readonly env?: readonly EnvEntry[];
  readonly volumes?: readonly string[];
  readonly dockerArgs?: string;
  readonly containerRegistryAuthId?: string;
};

const GIVEN_FIELDS: readonly string[] = [
  ...SETTING_FIELDS,
  "imageName",
  "id",
  "name",
  "templateId",
  "template",
  "env",
  "dockerArgs",
  "containerRegistryAuthId",
];

/** Throws INVALID_SETTING for a kind that only a deploy makes, BAD_INPUT for volumes that are none. */
export function givenFields(input: EndpointInput): GivenFields {
  const given = Object.entries(input).filter(
    ([name, value]) => value !== null && value !== undefined && GIVEN_FIELDS.includes(name),
  );
  const [instanceIds] = [input.instanceIds].flat();
  const volumes = volumeIds(input.networkVolumeIds);
  if (input.type && !["QB", "QUEUE"].includes(input.type)) {
    throw new SvcError("INVALID_SETTING", `type ${input.type} cannot be given here.`, {
      help: "What saveEndpoint makes is queue-based (QB); a load-balanced endpoint is deployed: svc deploy.",
    });
  }
  return {
    ...bootOf(input.flashBootType),
    ...(Object.fromEntries(given.filter(([name]) => name !== "instanceIds")) as GivenFields),
    // The default, in the words of others.
    ...(input.executionTimeoutMs === 0 && { executionTimeoutMs: EXECUTION_TIMEOUT_DEFAULT_MS }),
    ...(typeof instanceIds === "string" && { instanceIds }),
    ...(volumes.length > 0 && { volumes }),
  };
}

function bootOf(flashBootType: string | null | undefined): GivenFields {
  if (!flashBootType) return {};
  const boots: Readonly<Record<string, BootType>> = { FLASHBOOT: "SVCBOOT", PRIORITY_FLASHBOOT: "SVCBOOT", OFF: "OFF" };
  const svcBootType = boots[flashBootType];
  if (svcBootType !== undefined) return { svcBootType };
  throw new SvcError("INVALID_SETTING", `flashBootType must be one of ${Object.keys(boots).join(", ")}.`);
}

/** Ids, or objects with networkVolumeId. */
function volumeIds(given: unknown): string[] {
  if (given === null || given === undefined) return [];
  const list: unknown[] = Array.isArray(given) ? given : [given];
  const ids = list.map((one) => (typeof one === "object" && one !== null ? (one as NamedVolume).networkVolumeId : one));
  const wrong = ids.filter((id) => typeof id !== "string" || id === "");
  if (wrong.length === 0) return ids as string[];
  throw new SvcError("BAD_INPUT", "networkVolumeIds is a list of ids, or of objects like {networkVolumeId: ID}.");
}

interface NamedVolume {
  readonly networkVolumeId?: unknown;
}

export function isPrintableName(name: string): boolean {
  return /^\P{Cc}+$/u.test(name) && name.trim() !== "" && name.length <= SAVED_NAME_MAX_CHARS;
}

/**
 * `settings` with the given ones in place. Giving a GPU moves the endpoint off its CPU machine and the reverse; an
 * image that was the default follows.
 */
export function withGiven(settings: EndpointSettings, given: GivenFields): EndpointSettings {
  const pick = <K extends SettingField>(field: K): EndpointSettings[K] => (given[field] ?? settings[field]) as never;
  const toGpu = given.gpuIds && given.instanceIds === undefined;
  const toCpu = given.instanceIds && given.gpuIds === undefined;
  const gpuIds = toCpu ? "" : pick("gpuIds").trim();
  const isDefaultImage = settings.imageName === CPU_IMAGE || settings.imageName === GPU_IMAGE;
  return {
    workersMin: pick("workersMin"),
    workersMax: pick("workersMax"),
    idleTimeout: pick("idleTimeout"),
    gpuIds,
    gpuCount: pick("gpuCount"),
    instanceIds: toGpu ? "" : pick("instanceIds").trim(),
    maxConcurrency: pick("maxConcurrency"),
    executionTimeoutMs: pick("executionTimeoutMs"),
    scalerType: pick("scalerType") as ScalerType,
    scalerValue: pick("scalerValue"),
    svcBootType: pick("svcBootType") as BootType,
    imageName: isDefaultImage ? defaultSettings("queue", gpuIds).imageName : settings.imageName,
    networkVolumeId: pick("networkVolumeId"),
    locations: pick("locations"),
    cors: pick("cors"),
    requestTimeoutMs: pick("requestTimeoutMs"),
    retriesMax: pick("retriesMax"),
    retryDelayMs: pick("retryDelayMs"),
    retryBackoff: pick("retryBackoff"),
    retryMaxDelayMs: pick("retryMaxDelayMs"),
    publicRoutes: settings.publicRoutes,
    hosts: settings.hosts,
  };
}
