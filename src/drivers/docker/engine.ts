/**
 * The container engine of this machine, by its socket. Loaded only when it is asked for: the client library costs a fifth
 * of a second. Whatever hinders reaching the engine becomes one ENGINE_UNREACHABLE with what to do about it.
 */
import type Docker from "dockerode";
import { SvcError } from "../../domain/errors.ts";
import { CONTAINER_CALL_MAX_MS, ENGINE_ANSWER_MAX_MS } from "../../domain/limits.ts";
import { onPath } from "../../lib/on-path.ts";

export type { Container, ContainerInfo, Image, Network } from "dockerode";
export type Engine = Docker;

export interface EngineFacts {
  /** As images name it: "amd64", "arm64". */
  readonly architecture: string;
  /** The engine runs without root: its containers' root is the user who runs it. */
  readonly rootless: boolean;
  /** Programs it can run containers with: "runc", "runsc". */
  readonly runtimes: readonly string[];
  /** Containers' user ids are shifted. */
  readonly shiftedUsers: boolean;
}

export interface ConnectedEngine {
  readonly engine: Engine;
  readonly facts: EngineFacts;
}

/** Names of processors, of the engine and of images. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x86_64: "amd64", aarch64: "arm64", armv7l: "arm" };

/** `env` has PATH, DOCKER_HOST. Throws ENGINE_UNREACHABLE. */
export async function connectEngine(env: Readonly<Record<string, string | undefined>>): Promise<ConnectedEngine> {
  const { default: Client } = await import("dockerode");
  const engine = new Client();
  try {
    // Whether it is there at all is soon told; to tell of itself it waits for what it does with its containers.
    await answered(engine.ping(), undefined, ENGINE_ANSWER_MAX_MS);
    const info = (await answered(engine.info())) as {
      Architecture: string;
      SecurityOptions?: string[];
      Runtimes?: Record<string, unknown>;
    };
    const security = info.SecurityOptions ?? [];
    return {
      engine,
      facts: {
        architecture: ARCHITECTURES[info.Architecture] ?? info.Architecture,
        runtimes: Object.keys(info.Runtimes ?? {}),
        rootless: security.some((option) => option.startsWith("name=rootless")),
        shiftedUsers: security.some((option) => option.startsWith("name=userns")),
      },
    };
  } catch (error) {
    throw unreachable(error as NodeJS.ErrnoException, env);
  }
}

/** Throws CONFIG_INVALID for a runtime that the engine does not have; "" is the engine's own choice. */
export function requireRuntime({ runtimes }: Pick<EngineFacts, "runtimes">, wanted: string): void {
  if (wanted === "" || runtimes.includes(wanted)) return;
  throw new SvcError("CONFIG_INVALID", `The Docker engine has no runtime "${wanted}".`, {
    where: "SVC_DOCKER_RUNTIME",
    help: `It has ${runtimes.join(", ") || "none that it names"}. Add it to "runtimes" in the daemon's daemon.json and restart the daemon.`,
  });
}

/**
 * A daemon that hangs takes connections all the same: throws when no answer came within `ms`. It may do what it was asked for nevertheless:
 * `tooLate` gets what it answers then.
 */
export function answered<T>(
  answer: Promise<T>,
  tooLate: (value: T) => unknown = () => {},
  ms = CONTAINER_CALL_MAX_MS,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      reject(new Error("it does not answer"));
    }, ms);
    answer.finally(() => clearTimeout(timer)).then((value) => (isLate ? tooLate(value) : resolve(value)), reject);
  });
}

function unreachable(
  error: NodeJS.ErrnoException & { address?: string },
  env: Readonly<Record<string, string | undefined>>,
): SvcError {
  const where = env.DOCKER_HOST || error.address || "unix:///var/run/docker.sock";
  const fail = (message: string, help: string) =>
    new SvcError("ENGINE_UNREACHABLE", message, { where, help, cause: error });
  if (error.code === "EACCES" || error.code === "EPERM") {
    return fail(
      "This user may not use Docker.",
      'Add it to the group docker ("sudo usermod -aG docker $USER"), log in again, and try again.',
    );
  }
  const installed = ["docker", "dockerd", "podman"].some((name) => onPath(name, env.PATH ?? "") !== undefined);
  if (error.code === "ENOENT" && !installed && !env.DOCKER_HOST) {
    return fail("Docker was not found on this machine.", "Install Docker Engine, or use SVC_DRIVER=process.");
  }
  if (error.code === "ENOENT" || error.code === "ECONNREFUSED") {
    return fail(
      "The Docker daemon does not run.",
      'Start it ("sudo systemctl start docker", or Docker Desktop) and try again.',
    );
  }
  return fail(`The Docker daemon cannot be used: ${engineWords(error)}.`, "Check DOCKER_HOST and the daemon's log.");
}

/** What the engine says while it builds, pulls or imports. */
export interface EngineEvent {
  /** Of a build: what its steps print. */
  readonly stream?: string;
  readonly error?: string;
}

/** No event is longer; of one that is, the end is lost. */
const EVENT_MAX_CHARS = 1024 * 1024;

/** Waits for a build, pull or import to end; rejects with what the engine said. */
export async function followed(
  stream: NodeJS.ReadableStream,
  onEvent: (event: EngineEvent) => void = () => {},
): Promise<void> {
  let failure: string | undefined;
  let rest = "";
  const take = (line: string) => {
    let event: EngineEvent;
    try {
      event = JSON.parse(line) as EngineEvent;
    } catch {
      return; // An empty line, or one that was cut.
    }
    failure ??= event.error;
    onEvent(event);
  };
  stream.setEncoding("utf8");
  for await (const text of stream) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!.slice(0, EVENT_MAX_CHARS);
    for (const line of lines) take(line);
  }
  take(rest);
  if (failure !== undefined) throw new Error(failure);
}

/** Whether the engine answered with this HTTP status. */
export function hasStatus(error: unknown, ...statuses: number[]): boolean {
  return statuses.includes((error as { statusCode?: number }).statusCode ?? 0);
}

/** What the engine said, without the client's own words around it. */
export function engineWords(error: unknown): string {
  const { json, message } = error as { json?: { message?: string }; message?: string };
  const words = json?.message ?? message ?? String(error);
  return words
    .replace(/^\(HTTP code \d+\) [a-z ]+ - /, "")
    .trim()
    .replace(/\.$/, "");
}

/** The outcome of a call whose error other parts should not see raw. */
export function engineFailed(what: string, error: unknown): SvcError {
  if (error instanceof SvcError) return error;
  return new SvcError("ENGINE_UNREACHABLE", `${what}: ${engineWords(error)}.`, {
    help: "The Docker daemon's log may say more.",
    cause: error,
  });
}
