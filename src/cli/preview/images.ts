/** Whether this machine has an image for every endpoint, asked before anything is installed for them. */
import type { ProjectBuild } from "../../build/build.ts";
import { CPU_IMAGE, GPU_IMAGE } from "../../domain/endpoint.ts";
import { SvcError } from "../../domain/errors.ts";
import type { CliContext } from "../context.ts";
import type { Terminal } from "../terminal.ts";
import type { Engine } from "./engine.ts";

type Endpoints = ProjectBuild["scan"]["endpoints"];

/** What builds install dependencies for. */
const BUILT_FOR = "amd64";

interface Problem {
  readonly text: string;
  readonly help: string;
}

/**
 * Images of the user's own are pulled. Where none for GPUs was made, that of CPU endpoints stands in for it: resolves the keys of the
 * preview's platform that say so. Throws IMAGE_MISSING with every image that is not here or does not fit, and
 * ENGINE_UNREACHABLE when this machine cannot run what a build holds.
 */
export async function requireImages(
  engine: Engine,
  { terminal, env }: Pick<CliContext, "terminal" | "env">,
  endpoints: Endpoints,
): Promise<Readonly<Record<string, string>>> {
  requireSameProcessor(engine, endpoints);
  const problems: Problem[] = [];
  const standIns: Record<string, string> = {};
  for (const [image, users] of imagesOf(endpoints, env)) {
    const problem = isBase(image)
      ? await baseImageProblem(engine, image, users)
      : await ownImageProblem(engine, terminal, image, users);
    if (problem === undefined) continue;
    const standIn = image === GPU_IMAGE ? await cpuStandIn(engine, users) : undefined;
    if (standIn === undefined) problems.push(problem);
    else {
      standIns.SVC_GPU_IMAGE = standIn;
      terminal.note(
        `This machine has no image ${needed(image, users)}: ${standIn} stands in, on the CPU. ${problem.help}`,
      );
    }
  }
  if (problems.length === 0) return standIns;
  const help = [...new Set(problems.map((problem) => problem.help))].join("\n");
  throw new SvcError("IMAGE_MISSING", problems.map((problem) => problem.text).join("\n"), { help });
}

/** As the platform chooses them: the configuration may name others for the base images. */
function imagesOf(endpoints: Endpoints, env: CliContext["env"]): Map<string, Endpoints[number][]> {
  const configured = new Map([
    [CPU_IMAGE, env.SVC_CPU_IMAGE],
    [GPU_IMAGE, env.SVC_GPU_IMAGE],
  ]);
  return Map.groupBy(endpoints, ({ settings }) => configured.get(settings.imageName) || settings.imageName);
}

function isBase(image: string): boolean {
  return image === CPU_IMAGE || image === GPU_IMAGE;
}

/** There is one for each version of Python, or one for all. */
async function baseImageProblem(engine: Engine, image: string, users: Endpoints): Promise<Problem | undefined> {
  const repository = image.replace(/:[^/]*$/, "");
  const tags = await engine.tagsOf(repository);
  const help = `Make it with svc platform images build${image === GPU_IMAGE ? " --gpu" : ""}.`;
  for (const { pythonVersion } of users) {
    const fitting = pythonVersion === undefined ? tags : [`${repository}:py${pythonVersion}`, image];
    const architecture = await engine.architectureOf(fitting.filter((tag) => tags.includes(tag)));
    const wanted = pythonVersion === undefined ? image : `${repository}:py${pythonVersion}`;
    if (architecture === undefined) return { text: `This machine has no image ${needed(wanted, users)}.`, help };
    if (architecture !== engine.architecture) return differs(engine, needed(wanted, users), architecture);
  }
  return undefined;
}

/** One image for all of them; undefined when there is none that fits. */
async function cpuStandIn(engine: Engine, users: Endpoints): Promise<string | undefined> {
  const repository = CPU_IMAGE.replace(/:[^/]*$/, "");
  const tags = await engine.tagsOf(repository);
  const versions = new Set(users.flatMap(({ pythonVersion }) => pythonVersion ?? []));
  const fitting = [...[...versions].map((version) => `${repository}:py${version}`), CPU_IMAGE];
  const candidates = versions.size > 1 ? [CPU_IMAGE] : versions.size === 1 ? fitting : [CPU_IMAGE, ...tags];
  const found = candidates.find((tag) => tags.includes(tag));
  if (found === undefined || (await engine.architectureOf([found])) !== engine.architecture) return undefined;
  return found;
}

async function ownImageProblem(
  engine: Engine,
  terminal: Terminal,
  image: string,
  users: Endpoints,
): Promise<Problem | undefined> {
  let architecture = await engine.architectureOf([image]);
  if (architecture === undefined) {
    const progress = await terminal.progress(`Pulling the image ${image}`);
    try {
      await engine.pull(image);
      architecture = await engine.architectureOf([image]);
    } catch (error) {
      return {
        text: `This machine has no image ${needed(image, users)}, and cannot pull it: ${(error as Error).message}.`,
        help: `Get it with docker pull ${image}, or build it here with docker build.`,
      };
    } finally {
      progress.done();
    }
  }
  if (architecture === undefined || architecture === engine.architecture) return undefined;
  return differs(engine, needed(image, users), architecture);
}

function needed(image: string, users: Endpoints): string {
  const names = users.map(({ name }) => name).join(", ");
  return `${image}, which ${names} ${users.length === 1 ? "needs" : "need"}`;
}

function differs(engine: Engine, image: string, architecture: string): Problem {
  return {
    text: `The image ${image}, is for ${architecture}; this machine is ${engine.architecture}.`,
    help: `Use an image for linux/${engine.architecture}.`,
  };
}

/** Python code runs anywhere; installed packages may not. */
function requireSameProcessor(engine: Engine, endpoints: Endpoints): void {
  if (engine.architecture === BUILT_FOR) return;
  const bound = endpoints.filter(({ dependencies }) => dependencies.length > 0).map(({ name }) => name);
  if (bound.length === 0) return;
  const names = bound.join(", ");
  throw new SvcError(
    "ENGINE_UNREACHABLE",
    `Builds hold dependencies for Linux ${BUILT_FOR}, and this Docker engine runs on ${engine.architecture}: ${names} cannot be previewed on it.`,
    { help: "Preview on a machine with such a processor, or run svc deploy to a platform that has one." },
  );
}
