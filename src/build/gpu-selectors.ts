import { GPU_ANY, GPU_GROUPS, gpuGroupNames, gpuTypeMembers } from "../domain/gpu.ts";
import { nearest } from "../domain/names.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

/** `gpu=` as selectors for gpuIds(); undefined when a part is unknown, which is reported. */
export function gpuSelectors(value: Value, report: Report): string[] | undefined {
  const items = value.kind === "list" ? value.items : [value];
  const error = (rule: string, item: Value, message: string, help: string) => {
    report({ severity: "error", rule, message, help, at: item.at });
  };
  const example = "Write gpu=GpuType.NVIDIA_L4 or gpu=GpuGroup.ANY, or a list of them.";
  if (items.length === 0) {
    error("invalid-setting", value, "gpu= names no GPU.", example);
    return undefined;
  }
  const selectors = items.map((item) => {
    if (item.kind === "unknown" || item.kind === "environment") {
      const why = item.kind === "unknown" ? item.why : `${item.name} is an environment variable`;
      error("not-constant", item, `gpu cannot be known without running the code: ${why}.`, example);
      return undefined;
    }
    if (item.kind !== "gpu" && item.kind !== "string") {
      error("invalid-setting", item, `gpu takes GpuType or GpuGroup members, not ${describeValue(item)}.`, example);
      return undefined;
    }
    const found = item.kind === "gpu" ? inFamily(item.family, item.member) : byText(item.value);
    if (found !== undefined) return found;
    const shown = item.kind === "gpu" ? `${item.family}.${item.member}` : JSON.stringify(item.value);
    error("unknown-gpu", item, `There is no GPU ${shown}.`, suggestion(item));
    return undefined;
  });
  return selectors.every((selector) => selector !== undefined) ? selectors : undefined;
}

function inFamily(family: "GpuType" | "GpuGroup", member: string): string | undefined {
  const members = family === "GpuType" ? [GPU_ANY, ...gpuTypeMembers()] : gpuGroupNames();
  return members.includes(member) ? member : undefined;
}

/** A group, a member or a product string, as in "AMPERE_24", "NVIDIA_L4", "NVIDIA L4". */
function byText(text: string): string | undefined {
  if (gpuGroupNames().includes(text) || gpuTypeMembers().includes(text)) return text;
  return Object.values(GPU_GROUPS)
    .flat()
    .find(({ product }) => product === text)?.member;
}

function suggestion(item: Value & { kind: "gpu" | "string" }): string {
  const word = item.kind === "gpu" ? item.member : item.value;
  const types = gpuTypeMembers().map((member) => `GpuType.${member}`);
  const groups = gpuGroupNames().map((member) => `GpuGroup.${member}`);
  const byMember = new Map([...types, ...groups].map((full) => [full.split(".")[1]!, full]));
  const parts = [...byMember.keys()].filter((member) => member.toLowerCase().includes(word.toLowerCase()));
  // What is named in part is meant rather than what is spelt alike.
  const near = [...new Set([...parts, ...nearest(word, byMember.keys())])].slice(0, 3).map((m) => byMember.get(m)!);
  return near.length > 0 ? `Did you mean ${near.join(", ")}?` : `The groups are ${gpuGroupNames().join(", ")}.`;
}
