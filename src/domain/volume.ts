/**
 * Volumes: folders that stay, each of an environment. An endpoint's volumes are one text, as declarations, the manifest and the record
 * carry it: names with where and how they are mounted, "models" or "models:/models:ro:100GB,data:/data".
 */
import { SvcError } from "./errors.ts";
import { VOLUME_PATH_MAX_CHARS, VOLUMES_MAX } from "./limits.ts";
import { isValidName } from "./names.ts";

/** A volume belongs to an environment: every endpoint there that names it has the same files. */
export interface Volume {
  readonly app: string;
  readonly environment: string;
  readonly name: string;
}

export interface VolumeMount {
  readonly name: string;
  /** "" is the usual place, `/volumes/<name>`, and `/runpod-volume`, which images of others expect. */
  readonly path: string;
  readonly readOnly: boolean;
  /** As written, e.g. "100GB"; "" for none. */
  readonly sizeLimit: string;
}

/** A mount as drivers make it. */
export interface MountedVolume extends Volume {
  readonly paths: readonly string[];
  readonly readOnly: boolean;
}

/** First folders of paths that belong to the system, its users, or a worker's own runtime. */
const TAKEN = new Set([
  ..."bin boot dev etc home lib lib32 lib64 libx32 lost+found nix proc root run sbin snap sys tmp usr var".split(" "),
]);
const RUNTIME = "/opt/svc";
const PATH = /^(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$/;
const SIZE = /^([1-9]\d{0,5})(MB|GB|TB)$/;
const SIZE_UNITS: Readonly<Record<string, number>> = { MB: 1e6, GB: 1e9, TB: 1e12 };

/** Why no volume can have this name; undefined when one can. */
export function volumeNameProblem(name: string): string | undefined {
  if (isValidName(name)) return undefined;
  return `${JSON.stringify(name)} cannot name a volume: a name has 1 to 63 of a-z, 0-9, - and _, and starts with a letter or a digit.`;
}

/** Why no volume can be mounted there; undefined when one can. */
export function volumePathProblem(path: string): string | undefined {
  const shown = JSON.stringify(path);
  if (!path.startsWith("/")) return `${shown} is no absolute path: write one such as "/models".`;
  if (!PATH.test(path) || path.length > VOLUME_PATH_MAX_CHARS) {
    return `${shown} is no path for a volume: it is "/" before each of its names, which have A-Z, a-z, 0-9, _, - and ., no . first, and has at most ${VOLUME_PATH_MAX_CHARS} characters.`;
  }
  const isRuntime = path === "/opt" || isWithin(path, RUNTIME);
  if (!isRuntime && !TAKEN.has(path.split("/")[1]!)) return undefined;
  return `A volume at ${shown} would cover what belongs to the system or the worker's runtime: choose another place, such as "/models" or "/mnt/models".`;
}

const PART_MAX_BYTES = 255;
const PARTS_MAX = 64;

/** What is wrong with the names of a path in a volume, from its top downwards. */
export function volumePathProblems(parts: readonly string[]): string[] {
  const problems = parts.flatMap((part) => {
    const shown = JSON.stringify(part.slice(0, PART_MAX_BYTES));
    if (part === "" || part === "." || part === "..") return `A path in a volume has no part ${shown}.`;
    if (/[/\0]/.test(part) || !part.isWellFormed()) return `${shown} cannot name a file.`;
    return Buffer.byteLength(part) > PART_MAX_BYTES ? `${shown}… is longer than ${PART_MAX_BYTES} bytes.` : [];
  });
  return parts.length > PARTS_MAX ? [...problems, `A path has at most ${PARTS_MAX} parts.`] : problems;
}

/** Bytes of "500MB", "100GB", "2TB" (powers of 1000); undefined for any other text. */
export function sizeLimitBytes(text: string): number | undefined {
  const [, digits, unit] = SIZE.exec(text) ?? [];
  return unit === undefined ? undefined : Number(digits) * SIZE_UNITS[unit]!;
}

export const SIZE_LIMIT_HELP = 'a size is a whole number with MB, GB or TB behind it, such as "100GB"';

export function volumesText(mounts: readonly VolumeMount[]): string {
  return mounts
    .map(({ name, path, readOnly, sizeLimit }) =>
      [name, path, readOnly ? "ro" : "", sizeLimit].filter((part) => part !== "").join(":"),
    )
    .join(",");
}

/** Of a text without problems. */
export function volumesOf(text: string): VolumeMount[] {
  if (text === "") return [];
  return text.split(",").map((one) => {
    const [name = "", ...options] = one.trim().split(":");
    const path = options.find((option) => option.startsWith("/")) ?? "";
    const sizeLimit = options.find((option) => option !== path && option !== "ro") ?? "";
    return { name, path, readOnly: options.includes("ro"), sizeLimit };
  });
}

/** Where a worker finds it. */
export function mountPaths({ name, path }: VolumeMount): readonly string[] {
  return path === "" ? [`/volumes/${name}`, "/runpod-volume"] : [path];
}

/** Every rule that the text of an endpoint's volumes breaks, as sentences. */
export function volumesProblems(text: string): string[] {
  const mounts = volumesOf(text);
  const problems = mounts.flatMap(({ name, path, sizeLimit }) => [
    volumeNameProblem(name),
    path === "" ? undefined : volumePathProblem(path),
    sizeLimit === "" || sizeLimitBytes(sizeLimit) !== undefined
      ? undefined
      : `${JSON.stringify(sizeLimit)} limits no volume: ${SIZE_LIMIT_HELP}.`,
  ]);
  return [...problems.filter((one) => one !== undefined), ...mountsProblems(mounts)];
}

/** What is wrong with several volumes together. */
export function mountsProblems(mounts: readonly VolumeMount[]): string[] {
  const problems: string[] = [];
  if (mounts.length > VOLUMES_MAX)
    problems.push(`An endpoint has at most ${VOLUMES_MAX} volumes, not ${mounts.length}.`);
  const paths = mounts.flatMap((mount) => mountPaths(mount)).sort();
  for (const [index, path] of paths.entries()) {
    const inside = paths.slice(index + 1).find((other) => isWithin(other, path));
    if (inside === path) problems.push(`Two volumes are mounted at ${path}.`);
    else if (inside !== undefined) problems.push(`The volume at ${inside} would lie in the one at ${path}.`);
  }
  return problems;
}

/** What is refused because a volume has reached the limit that an endpoint sets for it. */
export function volumeFull(name: string): SvcError {
  return new SvcError("STORAGE_FULL", `The volume "${name}" holds more than its limit: it takes nothing new.`, {
    help: `Remove files (svc volume rm ${name} PATH), or deploy with a larger size_limit.`,
  });
}

/** `why`: what its disk said; undefined: nothing. */
export function volumesAway(folder: string, why?: string): SvcError {
  const what = why === undefined ? "does not answer" : `cannot be used: ${why}`;
  return new SvcError("VOLUMES_AWAY", `The disk of the volumes, ${folder}, ${what}.`, {
    help: "Look after that disk, or after the machine that it is mounted from; it goes on by itself when it is back.",
  });
}

/** `mark`: the file that says whose volumes lie in the folder; `id` should stand there, and does `found`. */
export function volumesElsewhere(folder: string, mark: string, id: string, found: string | undefined): SvcError {
  const why =
    found === undefined
      ? `it lacks ${mark}, as the folder below a mount whose disk is not there`
      : `${mark} is another one's`;
  return new SvcError("VOLUMES_AWAY", `The folder of the volumes, ${folder}, is not the one that it was: ${why}.`, {
    help: `Mount their disk; the platform goes on by itself. echo ${id} > ${mark} makes this their folder from now on.`,
  });
}

/** What a caller hears when something with a folder of volumes failed. */
export function volumesFailed(folder: string, error: unknown): SvcError {
  return error instanceof SvcError ? error : volumesAway(folder, (error as Error).message);
}

/** The volume of each environment where what workers fetch is kept: weights of models, packages. */
export const CACHE_VOLUME = "svc-cache";

/** In the folder of the volumes: says whose they are. */
export const VOLUMES_MARK = ".svc-platform";

/** The environment whose volumes endpoints have that belong to none. */
export const SHARED_PLACE = { app: "network-volumes", environment: "shared" } as const;

/** Where libraries look for their caches, when this folder is the one. */
export function cacheEnv(folder: string): Readonly<Record<string, string>> {
  return {
    HF_HOME: `${folder}/huggingface`,
    TORCH_HOME: `${folder}/torch`,
    XDG_CACHE_HOME: folder,
    PIP_CACHE_DIR: `${folder}/pip`,
  };
}

/** `path` is `folder` or lies below it. */
export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
