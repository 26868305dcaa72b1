/** The container engine of this machine: whether it can be used, which images it has, a preview's network and containers. */
import { hostname } from "node:os";
import { finished } from "node:stream/promises";
import type Docker from "dockerode";
import { SvcError } from "../../domain/errors.ts";
import { ENGINE_ANSWER_MAX_MS, PREVIEW_STOP_MAX_MS } from "../../domain/limits.ts";
import { onPath } from "../../lib/on-path.ts";
import { poll } from "../poll.ts";
import type { Claim } from "./claim.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const LABEL = "svc.preview";
const OWNER_LABEL = "svc.preview.owner";
const HOST_LABEL = "svc.preview.host";

/** Names of processors: of the engine, and of images. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x86_64: "amd64", aarch64: "arm64", armv7l: "arm" };

/** Containers reach each other by this machine's address only. */
const APART = { "com.docker.network.bridge.enable_icc": "false" };

export interface Network {
  readonly name: string;
  /** This machine's address in it. */
  readonly gateway: string;
  /** Address and prefix length: "172.18.0.0/16". */
  readonly subnet: string;
}

/** What the engine still has of one preview. */
export interface Remains {
  readonly id: string;
  /** The file that its owner listens on. */
  readonly owner: string;
  readonly containers: readonly string[];
  readonly networks: readonly string[];
}

/** On everything that belongs to a preview. */
export function previewLabels({ id, socket }: Pick<Claim, "id" | "socket">): Record<string, string> {
  return { [LABEL]: id, [OWNER_LABEL]: socket, [HOST_LABEL]: hostname() };
}

/** Throws ENGINE_UNREACHABLE when there is no engine that previews can use, saying what is wrong with it. */
export async function openEngine(env: Environment): Promise<Engine> {
  const host = env.DOCKER_HOST ?? "";
  if (/^(ssh|https?|tcp):\/\//.test(host) && !/\/\/(localhost|127\.0\.0\.1|\[::1\])(:|\/|$)/.test(host)) {
    throw new SvcError("ENGINE_UNREACHABLE", `DOCKER_HOST names an engine on another machine: ${host}.`, {
      help: "A preview needs the Docker engine of this machine. Unset DOCKER_HOST.",
    });
  }
  const { default: Client } = await import("dockerode");
  const docker = new Client();
  let info: { OSType?: string; Architecture?: string };
  try {
    info = (await withinTime(docker.info())) as typeof info;
  } catch (error) {
    throw unusable(error, env);
  }
  if (info.OSType !== "linux") {
    throw new SvcError(
      "ENGINE_UNREACHABLE",
      `The Docker engine runs ${info.OSType} containers; endpoints need Linux.`,
      {
        help: "Switch it to Linux containers.",
      },
    );
  }
  return new Engine(docker, ARCHITECTURES[info.Architecture ?? ""] ?? info.Architecture ?? "");
}

export class Engine {
  readonly #docker: Docker;
  /** Of its processor, as images name it: "amd64". */
  readonly architecture: string;

  constructor(docker: Docker, architecture: string) {
    this.#docker = docker;
    this.architecture = architecture;
  }

  /** "amd64" of an image that is here; undefined when none of `names` is. */
  async architectureOf(names: readonly string[]): Promise<string | undefined> {
    for (const name of names) {
      try {
        return (await this.#docker.getImage(name).inspect()).Architecture;
      } catch (error) {
        if (statusOf(error) !== 404) throw engineError(error);
      }
    }
    return undefined;
  }

  /** Tags of the images of one repository: "svc/worker-cpu" → ["svc/worker-cpu:latest"]. */
  async tagsOf(repository: string): Promise<readonly string[]> {
    try {
      const images = await this.#docker.listImages({ filters: { reference: [repository] } });
      return images.flatMap((image) => image.RepoTags ?? []);
    } catch (error) {
      throw engineError(error);
    }
  }

  /** Throws an Error with the engine's own words. */
  async pull(image: string): Promise<void> {
    try {
      const stream = await this.#docker.pull(image);
      await new Promise<void>((resolve, reject) => {
        this.#docker.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
      });
    } catch (error) {
      throw new Error(wordsOf(error), { cause: error });
    }
  }

  /** The network of one preview. */
  async createNetwork(claim: Pick<Claim, "id" | "socket">): Promise<Network> {
    const name = `svc-preview-${claim.id}`;
    const labels = previewLabels(claim);
    try {
      const network = await this.#docker.createNetwork({
        Name: name,
        Driver: "bridge",
        Labels: labels,
        Options: APART,
      });
      const { IPAM } = await network.inspect();
      const config = (IPAM?.Config as { Subnet?: string; Gateway?: string }[] | undefined)?.[0];
      if (config?.Subnet !== undefined && config.Gateway !== undefined) {
        return { name, gateway: config.Gateway, subnet: config.Subnet };
      }
      await network.remove();
    } catch (error) {
      throw engineError(error);
    }
    throw new SvcError("ENGINE_UNREACHABLE", "The Docker engine gave the preview's network no address.");
  }

  /** Of every preview of this machine, whoever started it. */
  async remains(): Promise<readonly Remains[]> {
    const filters = { label: [LABEL, `${HOST_LABEL}=${hostname()}`] };
    try {
      const [containers, networks] = await Promise.all([
        this.#docker.listContainers({ all: true, filters }),
        this.#docker.listNetworks({ filters }),
      ]);
      const all = new Map<string, { owner: string; containers: string[]; networks: string[] }>();
      const of = (labels: Record<string, string> = {}) => {
        const id = labels[LABEL] ?? "";
        const known = all.get(id) ?? { owner: labels[OWNER_LABEL] ?? "", containers: [], networks: [] };
        all.set(id, known);
        return known;
      };
      for (const { Id, Labels } of containers) of(Labels).containers.push(Id);
      for (const { Id, Labels } of networks) of(Labels).networks.push(Id);
      return [...all].map(([id, parts]) => ({ id, ...parts }));
    } catch (error) {
      throw engineError(error);
    }
  }

  /** False when a container of the preview gets no connection to this address of this machine. */
  async canReach(id: string, address: string, port: number): Promise<boolean> {
    const connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)";
    const [first] = await this.#docker.listContainers({ filters: { label: [`${LABEL}=${id}`] } });
    if (first === undefined) return true;
    const command = ["python3", "-I", "-S", "-c", connect, address, String(port)];
    const attempt = await this.#docker.getContainer(first.Id).exec({ Cmd: command, AttachStderr: true });
    const output = await attempt.start({});
    await finished(output.resume());
    const { ExitCode } = await attempt.inspect();
    return ExitCode !== 1; // Any other code: the attempt itself was not possible.
  }

  /** Containers end at once; what is gone already does not matter. */
  async remove({ containers, networks }: Pick<Remains, "containers" | "networks">): Promise<void> {
    try {
      await Promise.all(containers.map((id) => gone(this.#docker.getContainer(id).remove({ force: true, v: true }))));
      await Promise.all(networks.map((id) => this.#removeNetwork(id)));
    } catch (error) {
      throw engineError(error);
    }
  }

  /** A container whose removal is under way still holds it for a moment. */
  async #removeNetwork(id: string): Promise<void> {
    let held: unknown;
    const removed = await poll(PREVIEW_STOP_MAX_MS, async () => {
      try {
        await gone(this.#docker.getNetwork(id).remove());
        return true;
      } catch (error) {
        if (statusOf(error) !== 403) throw error;
        held = error;
        return undefined;
      }
    });
    if (removed === undefined) throw held;
  }

  /** Everything that carries the preview's label. */
  async removePreview(id: string): Promise<void> {
    const mine = (await this.remains()).find((remains) => remains.id === id);
    if (mine !== undefined) await this.remove(mine);
  }
}

/** 404: it is gone; 409: its removal is in progress. */
async function gone(removal: Promise<unknown>): Promise<void> {
  await removal.catch((error: unknown) => {
    if (![404, 409].includes(statusOf(error) ?? 0)) throw error;
  });
}

async function withinTime<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("it does not answer")), ENGINE_ANSWER_MAX_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Why the engine cannot be used, and what to do about it. */
export function unusable(error: unknown, env: Environment): SvcError {
  const code = (error as NodeJS.ErrnoException).code;
  const installed = ["dockerd", "docker"].some((name) => onPath(name, env.PATH ?? "") !== undefined);
  if (code === "EACCES" || code === "EPERM") {
    return new SvcError("ENGINE_UNREACHABLE", "This user may not use the Docker engine.", {
      help: "Add the user to the group docker (sudo usermod -aG docker $USER), then log in again.",
      cause: error,
    });
  }
  if (code === "ENOENT" && !installed && !env.DOCKER_HOST) {
    return new SvcError("ENGINE_UNREACHABLE", "Docker is not installed; --preview runs the build in containers.", {
      help: "Install it (docs.docker.com/engine/install), or run svc deploy, which needs no containers.",
      cause: error,
    });
  }
  if (code === "ENOENT" || code === "ECONNREFUSED") {
    const where = env.DOCKER_HOST ? ` at ${env.DOCKER_HOST}` : "";
    return new SvcError("ENGINE_UNREACHABLE", `The Docker engine does not run${where}.`, {
      help: "Start it: sudo systemctl start docker, or Docker Desktop.",
      cause: error,
    });
  }
  return engineError(error);
}

function engineError(error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  return new SvcError("ENGINE_UNREACHABLE", `The Docker engine failed: ${wordsOf(error)}.`, {
    help: "docker info shows its state.",
    cause: error,
  });
}

/** Without the client's "(HTTP code 500) server error -". */
function wordsOf(error: unknown): string {
  return (error as Error).message
    .replace(/^\(HTTP code \d+\) [^-]*- /, "")
    .trim()
    .replace(/\.$/, "");
}

function statusOf(error: unknown): number | undefined {
  return (error as { statusCode?: number }).statusCode;
}
