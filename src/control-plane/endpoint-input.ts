import {
  type BootType,
  CPU_IMAGE,
  defaultSettings,
  type EndpointSettings,
  GPU_IMAGE,
  type ScalerType,
} from "../domain/endpoint.ts";
import { SAVED_NAME_MAX_CHARS } from "../domain/limits.ts";

export interface EnvEntry {
  readonly key: string;
  readonly value: string;
}

export interface TemplateInput {
  readonly id?: string | null;
  readonly name?: string | null;
  readonly imageName?: string | null;
  readonly env?: readonly EnvEntry[] | null;
}

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

/** As the schema has it: a field that is null counts as not given. */
export type EndpointInput = {
  readonly [field in SettingField | "id" | "name" | "templateId" | "imageName"]?: string | number | null;
} & {
  readonly template?: TemplateInput | null;
  readonly env?: readonly EnvEntry[] | null;
};

export type GivenFields = Partial<Pick<EndpointSettings, SettingField | "imageName">> & {
  readonly id?: string;
  readonly name?: string;
  readonly templateId?: string;
  readonly template?: TemplateInput;
  readonly env?: readonly EnvEntry[];
};

export function givenFields(input: EndpointInput): GivenFields {
  const given = Object.entries(input).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(given) as GivenFields;
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
  };
}
