import { SvcError } from "../domain/errors.ts";
import type { DependencyLayer, PackageSize } from "./dependency-layer.ts";
import type { ProjectFile } from "./project-files.ts";

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
  const rows = [
    ...packages.map(({ name, version, sizeBytes }) => ({ what: `${name} ${version}`, sizeBytes })),
    ...files.map((file) => ({ what: file.path, sizeBytes: file.sizeBytes })),
  ]
    .sort((a, b) => b.sizeBytes - a.sizeBytes || (a.what < b.what ? -1 : 1))
    .slice(0, SHOWN);
  const table = rows.map((row) => `  ${megabytes(row.sizeBytes).padStart(12)}  ${row.what}`).join("\n");
  const unpacked =
    packages.reduce((sum, each) => sum + each.sizeBytes, 0) + files.reduce((sum, each) => sum + each.sizeBytes, 0);
  const names = enoughToLeaveOut(packages, unpacked * (1 - maxBytes / artifactBytes));
  const largestFile = rows.find((row) => files.some((file) => file.path === row.what));
  const help =
    names.length > 0
      ? `Leave packages out that the workers' image already has: --exclude ${names.join(",")}`
      : `Leave files out by .svcignore${largestFile ? `, for example ${largestFile.what}` : ""}; workers can load data from a volume.`;
  throw new SvcError(
    "ARTIFACT_TOO_LARGE",
    `The artifact has ${megabytes(artifactBytes)}, and at most ${megabytes(maxBytes)} can be deployed. Largest parts, unpacked:\n${table}`,
    { help },
  );
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
