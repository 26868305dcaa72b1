/** Which packages of Debian this machine has, as dpkg keeps them. */
import { existsSync, readFileSync } from "node:fs";

const STATUS = "/var/lib/dpkg/status";

/** Why workers of this machine lack what their endpoint needs, with the command that installs it; undefined when they do not. */
export function missingPackages(wanted: readonly string[], inPod = false, statusFile = STATUS): string | undefined {
  if (wanted.length === 0 || !existsSync(statusFile)) return undefined;
  const installed = installedPackages(readFileSync(statusFile, "utf8"));
  const missing = wanted.filter((each) => {
    const [name, version] = each.split("=");
    const found = installed.get(name!);
    return found === undefined || (version !== undefined && !found.includes(version));
  });
  if (missing.length === 0) return undefined;
  const shown = missing.map((each) => {
    const found = installed.get(each.split("=")[0]!);
    return found === undefined ? each : `${each} (it has ${found.join(", ")})`;
  });
  const needs = `system_dependencies= needs ${shown.join(", ")}, which`;
  if (inPod) {
    return (
      `${needs} the image of the pools' Pods lacks, and nothing is installed there. Name an image that has it, and leave system_dependencies= out: ` +
      'image="registry.example.com/name:tag". Or have it put into the image of the platform (image of the chart).'
    );
  }
  return (
    `${needs} the machine of its workers lacks. ` +
    `Install there: sudo apt-get install -y ${missing.join(" ")}. Or start the platform with SVC_DRIVER=docker, which builds an image with it.`
  );
}

/** What to say where nobody can tell whether the machine has them. */
export function cannotBeChecked(wanted: readonly string[], statusFile = STATUS): string | undefined {
  if (wanted.length === 0 || existsSync(statusFile)) return undefined;
  return `this machine has no dpkg, so nobody knows whether it has ${wanted.join(", ")}`;
}

/** Versions by name; of several architectures there may be several. */
function installedPackages(status: string): Map<string, string[]> {
  const installed = new Map<string, string[]>();
  for (const entry of status.split("\n\n")) {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(entry)?.[1];
    const name = field("Package");
    if (name === undefined || !/ installed$/.test(field("Status") ?? "")) continue;
    installed.set(name, [...(installed.get(name) ?? []), field("Version") ?? ""]);
  }
  return installed;
}
