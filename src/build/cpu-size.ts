import { MACHINE_TYPES, machineType, readSize, SIZE_EXAMPLES, SIZES, sizeId } from "../domain/machine-type.ts";
import { nearest } from "../domain/names.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

/** `cpu=` as the id of a machine type or size; undefined when it is neither, which is reported. */
export function cpuSize(value: Value, report: Report): string | undefined {
  const error = (rule: string, item: Value, message: string, help: string): undefined => {
    report({ severity: "error", rule, message, help, at: item.at });
  };
  const example = `Write a machine type such as cpu="cpu5c-4-8", or a size: ${SIZE_EXAMPLES}.`;
  const size = (vcpus: number, memoryGb: number) =>
    sizeId(vcpus, memoryGb) ??
    error("invalid-setting", value, `No worker has ${vcpus} vCPU and ${memoryGb} GB. ${SIZES}`, example);

  const items = value.kind === "list" ? value.items : [value];
  for (const item of items) {
    if (item.kind !== "unknown" && item.kind !== "environment") continue;
    const why = item.kind === "unknown" ? item.why : `${item.name} is an environment variable`;
    return error("not-constant", item, `cpu cannot be known without running the code: ${why}.`, example);
  }
  if (value.kind === "list") {
    const [vcpus, memoryGb, ...rest] = items;
    if (vcpus?.kind === "number" && memoryGb?.kind === "number" && rest.length === 0)
      return size(vcpus.value, memoryGb.value);
    return error("invalid-setting", value, "cpu takes one size: a pair of vCPU and GB, two numbers.", example);
  }
  if (value.kind !== "string") {
    return error("invalid-setting", value, `cpu takes a text or a pair, not ${describeValue(value)}.`, example);
  }
  const id = value.value;
  if (machineType(id) !== undefined) return id;
  const read = readSize(id);
  if (read !== undefined) return size(...read);
  const ids = MACHINE_TYPES.map((type) => type.id);
  const near = nearest(id, ids);
  const guess = near.length > 0 ? `Did you mean ${near.join(", ")}? ` : "";
  const help = `${guess}The ids are ${ids.join(", ")}. Any size: ${SIZE_EXAMPLES}.`;
  return error("unknown-cpu", value, `There is no CPU machine type ${JSON.stringify(id)}.`, help);
}
