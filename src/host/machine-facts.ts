/** What an agent says of its machine. */
import { readdir, statfs } from "node:fs/promises";
import type { Host } from "../domain/capacity.ts";
import type { HostHello } from "../domain/host-protocol.ts";
import { VERSION } from "../domain/version.ts";
import { CapacityLedger, findGpus, hardware } from "../drivers/capacity.ts";
import type { Config } from "../server/config.ts";

/** How much of the machine is offered; what is undefined is offered whole. */
export interface Caps {
  readonly cpus: number | undefined;
  readonly memoryGb: number | undefined;
  readonly gpus: number | undefined;
}

export async function offeredMachine(config: Config, caps: Caps): Promise<CapacityLedger> {
  const gpus = await findGpus();
  const { vcpus, memoryGb } = hardware();
  const host: Host = {
    vcpus: Math.min(vcpus, caps.cpus ?? vcpus),
    memoryGb: Math.min(memoryGb, caps.memoryGb ?? memoryGb),
  };
  return new CapacityLedger(config, gpus.slice(0, caps.gpus ?? gpus.length), host);
}

/** "glibc 2.36", "musl"; "" when not known. */
export async function libc(): Promise<string> {
  if (process.platform !== "linux") return "";
  const report = process.report as typeof process.report & { excludeNetwork?: boolean };
  report.excludeNetwork = true; // Else it looks up names of addresses.
  const { header } = report.getReport() as { header?: { glibcVersionRuntime?: string } };
  if (header?.glibcVersionRuntime) return `glibc ${header.glibcVersionRuntime}`;
  const files = await readdir("/lib").catch(() => []);
  return files.some((name) => name.startsWith("ld-musl-")) ? "musl" : "";
}

export async function freeDisk(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

export async function helloOf(
  given: Pick<HostHello, "name" | "labels" | "driver" | "sharedVolumes">,
): Promise<Omit<HostHello, "clock">> {
  const { platform, arch } = process;
  return { ...given, version: VERSION, platform, arch, libc: await libc() };
}
