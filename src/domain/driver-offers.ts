/** What workers of a driver cannot have: a deploy that asks for it is refused, and nothing is left out in silence. */
import { CPU_IMAGE, type EndpointSettings, GPU_IMAGE } from "./endpoint.ts";
import type { ImageStep } from "./image-steps.ts";
import { isWithin, mountPaths, volumesOf } from "./volume.ts";

/** The settings that not every driver can give. */
export interface DriverWishes extends Pick<EndpointSettings, "imageName" | "networkVolumeId"> {
  /** The fixed port of its server; 0 or undefined: none. */
  readonly serverPort?: number | undefined;
  readonly systemDependencies?: readonly string[];
  readonly imageSteps?: readonly ImageStep[];
  readonly gpuIds?: string | undefined;
  readonly gpuCount?: number | undefined;
  /** Its image is pulled with a login that the platform keeps. */
  readonly registryLogin?: boolean;
  /** Labels of machines. */
  readonly hosts?: string | undefined;
}

/** The settings that not every platform can give, whatever its driver. */
export type PlatformWishes = DriverWishes & Pick<EndpointSettings, "instanceIds">;

/**
 * Why workers that are processes of the machine cannot have them, each a sentence with what to do; empty when they can.
 * `noView` says why they see the machine as it is, without paths of their own; "" when they have a view. `needed` are folders of the
 * machine that every worker's view must show.
 */
export function processProblems(wishes: DriverWishes, noView: string, needed: readonly string[] = []): string[] {
  const { networkVolumeId } = wishes;
  const problems = [...needsContainers(wishes)];
  if (networkVolumeId !== "" && noView !== "") {
    problems.push(
      `volume=${JSON.stringify(networkVolumeId)} cannot be mounted: ${noView}. ` +
        "Mend that (docs/reference/isolation.md), or start the platform with SVC_DRIVER=docker.",
    );
    return problems;
  }
  for (const path of volumesOf(networkVolumeId).flatMap(mountPaths)) {
    const covered = needed.find((folder) => isWithin(folder, path));
    if (covered === undefined) continue;
    problems.push(
      `A volume at ${path} would cover ${covered}, which every worker on this platform's machine needs. Choose another path.`,
    );
  }
  return problems;
}

/** The image that an endpoint brings itself; undefined: it has that of the platform. */
export function ownImage({ imageName }: Pick<DriverWishes, "imageName">): string | undefined {
  return imageName === CPU_IMAGE || imageName === GPU_IMAGE ? undefined : imageName;
}

/** What a Pod of an endpoint's own image cannot have, each a sentence with what to do: it runs what is there, and nothing is built. */
export function podProblems(wishes: Omit<DriverWishes, "networkVolumeId">, runsAlone = false): string[] {
  const { systemDependencies = [], imageSteps = [], registryLogin = false } = wishes;
  const image = ownImage(wishes);
  if (registryLogin) {
    return [
      "A login for a registry counts for nothing here: images run in Pods, whose nodes pull them, and the platform makes no Secrets. Make one of the " +
        "kind docker-registry in its namespace, and name it in hosts.imagePullSecrets of the chart (docs/operate/kubernetes.md); it counts for the images " +
        "of all endpoints. Or let a machine with Docker join: svc worker join … --driver docker.",
    ];
  }
  if (image === undefined && imageSteps.length === 0) return needsContainers(wishes);
  const problems: string[] = [];
  if (imageSteps.length > 0) {
    problems.push(
      "image=Image(…) has to be built, and Pods run images that are there. Build it with Docker, push it to a registry " +
        'that the nodes reach, and name it: image="registry.example.com/name:tag".',
    );
  } else if (systemDependencies.length > 0) {
    problems.push(
      `system_dependencies=${JSON.stringify(systemDependencies)} cannot be installed into the image of a Pod. ` +
        `Install them in ${JSON.stringify(image)}, and leave system_dependencies= out.`,
    );
  }
  if (runsAlone) {
    problems.push(
      `What the image ${JSON.stringify(image)} runs by itself cannot be told its job in a Pod. Name its program: ` +
        'command=["python3", "-u", "/worker.py"].',
    );
  }
  return problems;
}

/** Why its workers can only run in containers, each a sentence with what to do; empty when they can be processes. */
export function needsContainers(wishes: Omit<DriverWishes, "networkVolumeId">): string[] {
  const { imageName, serverPort, imageSteps = [] } = wishes;
  const problems: string[] = [];
  if (serverPort) {
    problems.push(
      `port=${serverPort} needs a network of its own, and workers here are processes that share their machine's. ` +
        `Write {port} in the command and leave port= out, or ${GET_CONTAINERS}.`,
    );
  }
  if (ownImage(wishes) !== undefined || imageSteps.length > 0) {
    const image = imageSteps.length > 0 ? "Image(…)" : JSON.stringify(imageName);
    problems.push(
      `image=${image} needs containers, and workers here are processes of their machine. Leave image= out, or ${GET_CONTAINERS}.`,
    );
  }
  return problems;
}

const GET_CONTAINERS =
  "start the platform with SVC_DRIVER=docker, or let a machine join it with svc worker join … --driver docker";
