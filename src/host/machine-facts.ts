/** What an agent says of its machine. */
import { statfs } from "node:fs/promises";
import { hostname } from "node:os";
import type { Host } from "../domain/capacity.ts";
import { SvcError } from "../domain/errors.ts";
import type { HostHello } from "../domain/host-protocol.ts";
import { VERSION } from "../domain/version.ts";
import { CapacityLedger, findGpus, hardware } from "../drivers/capacity.ts";
import { libc } from "../lib/libc.ts";
import type { Config } from "../server/config.ts";

/** How much of the machine is offered; what is undefined is offered whole. */
export interface Caps {
  readonly cpus: number | undefined;
  readonly memoryGb: number | undefined;
  readonly gpus: number | undefined;
}

export async function offeredMachine(config: Config, caps: Caps): Promise<CapacityLedger> {
  // A container beside this one runs the workers, and has what it was given.
  if (config.driver === "pod") {
    return new CapacityLedger(config, config.pod.gpus, { vcpus: caps.cpus ?? 1, memoryGb: caps.memoryGb ?? 1 });
  }
  const gpus = await findGpus(config.installerEnv.PATH);
  const { vcpus, memoryGb } = hardware();
  const host: Host = {
    vcpus: Math.min(vcpus, caps.cpus ?? vcpus),
    memoryGb: Math.min(memoryGb, caps.memoryGb ?? memoryGb),
  };
  return new CapacityLedger(config, gpus.slice(0, caps.gpus ?? gpus.length), host);
}

export async function freeDisk(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** `joinedAs`: under which the platform knows it already. Throws USAGE when it is asked for another, or has none. */
export function hostName(asked: string | undefined, joinedAs: string | undefined): string {
  if (joinedAs !== undefined) {
    if (asked === undefined || asked === joinedAs) return joinedAs;
    throw new SvcError("USAGE", `This machine joined as ${joinedAs}, and keeps that name.`, {
      help: `Leave --name out; or call svc host remove ${joinedAs} where the platform is managed, and join anew with another --data-dir.`,
    });
  }
  const own = hostname()
    .toLowerCase()
    .split(".")[0]!
    .replace(/[^a-z0-9-]/g, "-")
    .replace(/^-+/, "")
    .slice(0, 63)
    .replace(/-+$/, "");
  const name = asked ?? own;
  if (name !== "") return name;
  throw new SvcError("USAGE", "This machine's host name is no name for a host.", { help: "Give it one: --name NAME." });
}

export async function helloOf(
  given: Pick<HostHello, "name" | "labels" | "driver" | "sharedVolumes">,
): Promise<Omit<HostHello, "clock">> {
  const { platform, arch } = process;
  return { ...given, version: VERSION, platform, arch, libc: await libc() };
}
