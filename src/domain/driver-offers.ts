/** What workers of a driver cannot have: a deploy that asks for it is refused, and nothing is left out in silence. */
import { CPU_IMAGE, type EndpointSettings, GPU_IMAGE } from "./endpoint.ts";

export type DriverName = "process" | "docker";

/** The settings that not every driver can give. */
export type DriverWishes = Pick<EndpointSettings, "imageName" | "networkVolumeId">;

/** Why the driver cannot give them, each a sentence with what to do; empty when it can. */
export function driverProblems(driver: DriverName, { imageName, networkVolumeId }: DriverWishes): string[] {
  const problems: string[] = [];
  if (driver === "process" && imageName !== CPU_IMAGE && imageName !== GPU_IMAGE) {
    problems.push(
      `image=${JSON.stringify(imageName)} needs containers, and this platform runs workers as processes of its machine. ` +
        "Leave image= out, or start the platform with SVC_DRIVER=docker.",
    );
  }
  if (networkVolumeId !== "") {
    problems.push(
      `volume=${JSON.stringify(networkVolumeId)} cannot be mounted: no driver has volumes yet. Leave volume= out; ` +
        "folders of SVC_WORKER_PATHS can be read and written by every worker of a platform with SVC_DRIVER=process.",
    );
  }
  return problems;
}
