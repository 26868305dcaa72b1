/** Which image an endpoint gets, and whether it can run it: everything that is wrong is said before a container starts. */

import { BASE_PACKAGES } from "../../domain/base-requirement.ts";
import { CPU_IMAGE, GPU_IMAGE } from "../../domain/endpoint.ts";
import { SvcError } from "../../domain/errors.ts";
import type { ImageStep } from "../../domain/image-steps.ts";
import { type RegistryLogin, registryOf } from "../../domain/registry.ts";
import type { WorkerImage } from "../worker-driver.ts";
import { type Engine, engineWords, followed } from "./engine.ts";
import { buildOnImage, builtName } from "./image-build.ts";
import type { ImageFacts, ImageShelf } from "./image-facts.ts";
import { isMet, normalizedName } from "./requirement.ts";
import type { Mount } from "./worker-container.ts";

/** What stands for the default images; undefined: those that `svc platform images build` makes. */
export interface ImageNames {
  readonly cpu: string | undefined;
  readonly gpu: string | undefined;
}

/** What a container of an endpoint's build is made of. */
export interface PreparedImage {
  readonly facts: ImageFacts;
  readonly mounts: readonly Mount[];
  readonly handler: string;
  readonly paths: readonly string[];
}

interface PrepareImage {
  readonly engine: Engine;
  readonly shelf: ImageShelf;
  readonly names: ImageNames;
  readonly image: WorkerImage;
  /** Of images that are built. */
  readonly labels: Readonly<Record<string, string>>;
  /** Of this machine, for builds. */
  readonly proxies: Readonly<Record<string, string>>;
  readonly report: (line: string) => void;
  /** Who pulls the image; undefined: anybody. */
  readonly login?: () => Promise<RegistryLogin | undefined>;
}

/** Throws IMAGE_MISSING, IMAGE_UNSUITABLE and BUILD_FAILED. */
export async function prepareImage(prepare: PrepareImage): Promise<ImageFacts> {
  const { shelf, names, image } = prepare;
  const facts = await shelf.find(await presentImage(prepare));
  const { imageName } = image;
  const candidates = imageCandidates(imageName, image.pythonVersion, names);
  refuseUnsuitable(facts, image, isDefaultImage(imageName) ? candidates.at(-1)! : imageName);
  return facts;
}

/** Names of the image, of which the first that is there is meant: pulled or built where it was not. Throws IMAGE_MISSING and BUILD_FAILED. */
export async function presentImage(prepare: PrepareImage): Promise<readonly string[]> {
  const { engine, shelf, names, image, report } = prepare;
  const { imageName } = image;
  const candidates = imageCandidates(imageName, image.pythonVersion, names);
  const steps = stepsOf(image);
  let baseId: string;
  try {
    baseId = await shelf.idOf(candidates);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "IMAGE_MISSING") throw error;
    if (candidates.length > 1) throw notBuilt(error, image);
    await pullImage(engine, candidates[0]!, report, await prepare.login?.());
    baseId = await shelf.idOf(candidates);
  }
  if (steps.length === 0) return candidates;
  const { labels, proxies } = prepare;
  const { endpointName } = image;
  return [await buildOnImage({ engine, baseId, steps, labels, proxies, endpointName, report })];
}

/** What is built on its base: the steps of its Image, then the packages that it needs besides. */
function stepsOf({ imageSteps, systemDependencies }: WorkerImage): ImageStep[] {
  return [...imageSteps, ...(systemDependencies.length > 0 ? [{ apt: [...systemDependencies] }] : [])];
}

/** The names of what was built for these endpoints. */
export async function builtNames(
  images: readonly WorkerImage[],
  shelf: ImageShelf,
  names: ImageNames,
): Promise<Set<string>> {
  const built = new Set<string>();
  for (const image of images) {
    const steps = stepsOf(image);
    if (steps.length === 0) continue;
    const baseId = await shelf
      .idOf(imageCandidates(image.imageName, image.pythonVersion, names))
      .catch(() => undefined);
    if (baseId !== undefined) built.add(builtName(baseId, steps));
  }
  return built;
}

/** Best first. Our own images exist for several versions of Python. */
export function imageCandidates(imageName: string, pythonVersion: string, names: ImageNames): string[] {
  if (!isDefaultImage(imageName)) return [imageName];
  const configured = imageName === CPU_IMAGE ? names.cpu : names.gpu;
  return configured === undefined ? [versionTag(imageName, pythonVersion), imageName] : [configured];
}

function isDefaultImage(imageName: string): boolean {
  return imageName === CPU_IMAGE || imageName === GPU_IMAGE;
}

/** "svc/worker-cpu:py3.11" */
export function versionTag(imageName: string, pythonVersion: string): string {
  return imageName.replace(/:[^/]*$/, `:py${pythonVersion}`);
}

/** Throws IMAGE_UNSUITABLE. */
export function refuseUnsuitable(facts: ImageFacts, image: WorkerImage, name: string): void {
  const { endpointName, pythonVersion, baseDependencies } = image;
  if (facts.pythonVersion !== pythonVersion && image.dependencyLayer !== null) {
    throw new SvcError(
      "IMAGE_UNSUITABLE",
      `The image ${name} has Python ${facts.pythonVersion}, but the dependencies of "${endpointName}" were built for ${pythonVersion}.`,
      {
        help: `Declare python_version="${facts.pythonVersion}" and deploy again, or use an image with ${pythonVersion}.`,
      },
    );
  }
  const missing: string[] = [];
  for (const requirement of baseDependencies) {
    const version = facts.packages[normalizedName(requirement)];
    if (version === undefined) missing.push(requirement);
    else if (!isMet(requirement, version)) missing.push(`${requirement} (it has ${version})`);
  }
  if (missing.length === 0) return;
  const present = BASE_PACKAGES.filter((one) => one in facts.packages);
  const named = baseDependencies.map((one) => normalizedName(one));
  const wanted = [...baseDependencies, ...present.filter((one) => !named.includes(one))].join(",");
  throw new SvcError(
    "IMAGE_UNSUITABLE",
    `The image ${name} lacks ${missing.join(", ")}, which "${endpointName}" needs and artifacts leave out.`,
    {
      help: isDefaultImage(image.imageName)
        ? `Build it with them: ${buildCommand(image)} --packages "${wanted}"`
        : "Install them in the image.",
    },
  );
}

/** The login goes to the registry that the image's name names, and to no other. Throws IMAGE_MISSING. */
export async function pullImage(
  engine: Engine,
  name: string,
  report: (line: string) => void,
  login?: RegistryLogin,
): Promise<void> {
  report(`pulling ${name}`);
  try {
    const options = login && { authconfig: { ...login, serveraddress: registryOf(name) } };
    await followed(await (options === undefined ? engine.pull(name) : engine.pull(name, options)));
  } catch (error) {
    throw new SvcError(
      "IMAGE_MISSING",
      `The image ${name} is not on this machine and cannot be pulled: ${engineWords(error)}.`,
      { help: `Get it with "docker pull ${name}", or build it here; it is looked for again every few seconds.` },
    );
  }
}

function notBuilt(cause: SvcError, image: WorkerImage): SvcError {
  const name = versionTag(image.imageName, image.pythonVersion);
  return new SvcError("IMAGE_MISSING", `This machine has no image ${name} for endpoint "${image.endpointName}".`, {
    help: `Build it: ${buildCommand(image)}`,
    cause,
  });
}

function buildCommand(image: WorkerImage): string {
  return `svc platform images build${image.imageName === GPU_IMAGE ? " --gpu" : ""}`;
}
