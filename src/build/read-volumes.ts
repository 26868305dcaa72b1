/** `volume=` and `volumes=` of one Endpoint(...) as the text of its volumes, with a finding for every rule they break. */
import { suggestName } from "../domain/names.ts";
import {
  mountsProblems,
  SIZE_LIMIT_HELP,
  sizeLimitBytes,
  type VolumeMount,
  volumeNameProblem,
  volumePathProblem,
  volumesText,
} from "../domain/volume.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

const EXAMPLE = 'Write volume="models", or volumes={"/models": Volume("models", read_only=True)}.';

export function readVolumes(volume: Value | undefined, volumes: Value | undefined, report: Report): string {
  const tell = (rule: string, { at }: Value, message: string, help: string): undefined => {
    report({ severity: "error", rule, message, help, at });
  };
  const wrong = (value: Value, keyword: string, wanted: string) => {
    if (value.kind !== "unknown") {
      return tell("invalid-setting", value, `${keyword} takes ${wanted}, not ${describeValue(value)}.`, EXAMPLE);
    }
    return tell("not-constant", value, `${keyword} cannot be known without running the code: ${value.why}.`, EXAMPLE);
  };
  const mount = (value: Value, keyword: string, path: string): VolumeMount | undefined => {
    const given = value.kind === "string" ? { name: value.value, sizeLimit: "", readOnly: false } : fieldsOf(value);
    if (given === undefined) return wrong(value, keyword, "a name or a Volume with constant settings");
    const { name, readOnly, sizeLimit } = given;
    const problem = volumeNameProblem(name);
    const better = `${keyword === "volume" ? "volume=" : ""}"${suggestName(name)}"`;
    if (problem !== undefined) tell("invalid-setting", value, problem, `Use ${better}.`);
    const sized = sizeLimit === "" || sizeLimitBytes(sizeLimit) !== undefined;
    if (!sized)
      tell(
        "invalid-setting",
        value,
        `size_limit cannot be ${JSON.stringify(sizeLimit)}.`,
        `In it, ${SIZE_LIMIT_HELP}.`,
      );
    return problem === undefined && sized ? { name, path, readOnly, sizeLimit } : undefined;
  };

  const mounts: (VolumeMount | undefined)[] = [];
  if (volume !== undefined) mounts.push(mount(volume, "volume", ""));
  if (volumes !== undefined && volumes.kind !== "dict") wrong(volumes, "volumes", "a dict of paths and volumes");
  for (const [key, value] of volumes?.kind === "dict" ? volumes.entries : []) {
    if (key.kind !== "string") {
      wrong(key, "volumes", "paths as texts");
      continue;
    }
    const path = key.value.replace(/(?<=.)\/+$/, "");
    const problem = volumePathProblem(path);
    if (problem !== undefined) tell("invalid-setting", key, problem, EXAMPLE);
    const read = mount(value, "volumes", path);
    if (problem === undefined) mounts.push(read);
  }
  const good = mounts.filter((one) => one !== undefined);
  for (const problem of mountsProblems(good)) {
    tell("invalid-setting", volumes ?? volume!, problem, "Give each volume a path of its own.");
  }
  return volumesText(good);
}

/** Of `Volume("models", size_limit="1GB", read_only=True)`; undefined for anything else. */
function fieldsOf(value: Value): Omit<VolumeMount, "path"> | undefined {
  if (value.kind !== "made" || value.class !== "Volume") return undefined;
  const fields = new Map(value.arguments.map(([field, given]) => [field ?? "name", given] as const));
  if (fields.size < value.arguments.length) return undefined; // One is given twice.
  const { name, size_limit: limit, read_only: readOnly, ...others } = Object.fromEntries(fields);
  if (name?.kind !== "string" || Object.keys(others).length > 0) return undefined;
  const sizeLimit =
    limit === undefined || limit.kind === "none" ? "" : limit.kind === "string" ? limit.value : undefined;
  const isReadOnly = readOnly === undefined ? false : readOnly.kind === "boolean" ? readOnly.value : undefined;
  if (sizeLimit === undefined || isReadOnly === undefined) return undefined;
  return { name: name.value, sizeLimit, readOnly: isReadOnly };
}
