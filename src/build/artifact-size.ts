import { SvcError } from "../domain/errors.ts";
import { LAYER_UNPACKED_MAX_BYTES } from "../domain/limits.ts";
import type { DependencyLayer, PackageSize } from "./dependency-layer.ts";
import type { ProjectFile } from "./project-files.ts";

interface Part {
  readonly what: string;
  readonly sizeBytes: number;
}

const SHOWN = 10;
const MB = 1_000_000;

/** Throws ARTIFACT_TOO_LARGE with the largest parts and a way out. */
export function checkArtifactSize(
  artifactBytes: number,
  maxBytes: number,
  dependencies: readonly DependencyLayer[],
  files: readonly ProjectFile[],
): void {
  if (artifactBytes <= maxBytes) return;
  const packages = largestPackages(dependencies);
  const parts = [
    ...packages.map(({ name, version, sizeBytes }) => ({ what: `${name} ${version}`, sizeBytes })),
    ...files.map(partOf),
  ];
  const largest = largestOf(parts);
  const unpacked = bytesOf(parts);
  const names = enoughToLeaveOut(packages, unpacked * (1 - maxBytes / artifactBytes));
  const help =
    names.length > 0
      ? `Leave packages out that the workers' image already has: --exclude ${names.join(",")}`
      : leaveFilesOut(largest.find((row) => files.some((file) => file.path === row.what))?.what);
  throw new SvcError(
    "ARTIFACT_TOO_LARGE",
    `The artifact has ${megabytes(artifactBytes)}, and at most ${megabytes(maxBytes)} can be deployed. Largest parts, unpacked:\n${tableOf(largest)}`,
    { help },
  );
}

/** The same of files that no worker would be given, before any is read: that takes minutes. */
export function checkSourceSize(files: readonly ProjectFile[]): void {
  const bytes = bytesOf(files);
  if (bytes <= LAYER_UNPACKED_MAX_BYTES) return;
  const largest = largestOf(files.map(partOf));
  throw new SvcError(
    "ARTIFACT_TOO_LARGE",
    `The project's files have ${megabytes(bytes)}, and at most ${megabytes(LAYER_UNPACKED_MAX_BYTES)} can be unpacked on a machine. Largest files:\n${tableOf(largest)}`,
    { help: leaveFilesOut(largest[0]!.what) },
  );
}

function leaveFilesOut(example: string | undefined): string {
  return `Leave files out by .svcignore${example ? `, for example ${example}` : ""}; workers can load data from a volume.`;
}

function partOf({ path: what, sizeBytes }: ProjectFile): Part {
  return { what, sizeBytes };
}

function bytesOf(parts: readonly Pick<Part, "sizeBytes">[]): number {
  return parts.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}

function largestOf(parts: readonly Part[]): readonly Part[] {
  return parts.toSorted((a, b) => b.sizeBytes - a.sizeBytes || (a.what < b.what ? -1 : 1)).slice(0, SHOWN);
}

function tableOf(parts: readonly Part[]): string {
  return parts.map((row) => `  ${megabytes(row.sizeBytes).padStart(12)}  ${row.what}`).join("\n");
}

/** Each package once with its largest version. */
function largestPackages(dependencies: readonly DependencyLayer[]): PackageSize[] {
  const byName = new Map<string, PackageSize>();
  for (const each of dependencies.flatMap((layer) => layer.packages)) {
    if ((byName.get(each.name)?.sizeBytes ?? -1) < each.sizeBytes) byName.set(each.name, each);
  }
  return [...byName.values()].sort((a, b) => b.sizeBytes - a.sizeBytes || (a.name < b.name ? -1 : 1));
}

/** The largest packages that together have at least `bytes`; [] when all of them have less. */
function enoughToLeaveOut(packages: readonly PackageSize[], bytes: number): string[] {
  let sum = 0;
  const names: string[] = [];
  for (const { name, sizeBytes } of packages) {
    names.push(name);
    sum += sizeBytes;
    if (sum >= bytes) return names;
  }
  return [];
}

export function megabytes(bytes: number): string {
  const [value, unit] = bytes >= MB ? [bytes / MB, "MB"] : [bytes / 1000, "kB"];
  return `${value.toLocaleString("en-US", { maximumFractionDigits: 1 })} ${unit}`;
}
