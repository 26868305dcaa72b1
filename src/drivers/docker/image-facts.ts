/**
 * What an image offers a worker: its Python, the folders of its packages and what is in them. The image itself is asked,
 * once: a container without a network runs a few lines of Python. Nothing is assumed of an image but `python3`.
 */
import { z } from "zod";
import { SvcError } from "../../domain/errors.ts";
import { PYTHON_MINOR_MIN } from "../../domain/limits.ts";
import { createContainer, removeContainer } from "./container-life.ts";
import { answered, type Engine, engineFailed, engineWords, hasStatus } from "./engine.ts";
import { LABEL } from "./labels.ts";

export interface ImageFacts {
  readonly id: string;
  /** "3.11" */
  readonly pythonVersion: string;
  readonly python: string;
  /** Folders with packages, besides the standard library. */
  readonly packagePaths: readonly string[];
  /** Version by normalized name. */
  readonly packages: Readonly<Record<string, string>>;
  /** What the image sets for its programs. */
  readonly env: Readonly<Record<string, string>>;
}

/** Where our own images keep the packages that artifacts leave out. */
export const PACKAGES_DIR = "/opt/svc/packages";

/** A program that says what the Python that runs it has. */
export const PROBE = `
import json, os, re, sys, sysconfig
from importlib.metadata import distributions
own = {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib")}
paths = [p for p in [${JSON.stringify(PACKAGES_DIR)}, *sys.path[1:]] if os.path.isdir(p) and p not in own and not p.endswith("lib-dynload")]
found = {}
for d in distributions(path=paths):
    found.setdefault(re.sub("[-_.]+", "-", d.metadata["Name"] or "").lower(), d.version)
print(json.dumps({"version": "%d.%d" % sys.version_info[:2], "python": sys.executable, "paths": paths, "packages": found}))
`;

/** Variables that say where programs of the image are are kept by the launcher itself. */
const KEPT_ANYWAY = /^(PATH|HOME|HOSTNAME|TMPDIR)$/;

export class ImageShelf {
  readonly #engine: Engine;
  readonly #architecture: string;
  readonly #labels: Readonly<Record<string, string>>;
  readonly #runtime: string;
  readonly #facts = new Map<string, Promise<ImageFacts>>();

  /**
   * `labels`: by which the container that asks an image is found when whoever asks is killed meanwhile. `runtime`: what that
   * container runs with; "" is the engine's own.
   */
  constructor(engine: Engine, architecture: string, labels: Readonly<Record<string, string>> = {}, runtime = "") {
    this.#runtime = runtime;
    this.#engine = engine;
    this.#architecture = architecture;
    this.#labels = labels;
  }

  /** The id of the first that is there. Throws IMAGE_MISSING. */
  async idOf(names: readonly string[]): Promise<string> {
    for (const name of names) {
      const found = await this.#inspect(name);
      if (found !== undefined) return found.Id;
    }
    throw missing(names);
  }

  /** Throws IMAGE_MISSING and IMAGE_UNSUITABLE. `names`: the first that is there is taken. */
  async find(names: readonly string[]): Promise<ImageFacts> {
    for (const name of names) {
      const found = await this.#inspect(name);
      if (found === undefined) continue;
      let facts = this.#facts.get(found.Id);
      if (facts === undefined) {
        facts = this.#ask(name, found);
        this.#facts.set(found.Id, facts);
        facts.catch(() => this.#facts.delete(found.Id));
      }
      return facts;
    }
    throw missing(names);
  }

  async #inspect(name: string) {
    try {
      return await answered(this.#engine.getImage(name).inspect());
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw engineFailed(`The image ${name} cannot be looked at`, error);
    }
  }

  async #ask(name: string, image: { Id: string; Architecture: string; Config: { Env?: string[] } }) {
    if (image.Architecture !== this.#architecture) {
      throw unsuitable(
        `The image ${name} is built for ${image.Architecture}, this machine is ${this.#architecture}.`,
        `Build or pull it for linux/${this.#architecture}.`,
      );
    }
    let output: ProbeOutput;
    try {
      output = await runOnce(this.#engine, image.Id, ["python3", "-c", PROBE], this.#labels, this.#runtime);
    } catch (error) {
      if (error instanceof SvcError) throw error;
      throw noPython(name, engineWords(error));
    }
    const pairs = (image.Config.Env ?? []).map((line) => line.split(/=(.*)/s) as [string, string]);
    return factsOf(name, image.Id, output, pairs);
  }
}

interface ProbeOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const probeAnswer = z.object({
  version: z.string(),
  python: z.string(),
  paths: z.array(z.string()),
  packages: z.record(z.string(), z.string()),
});

/** What the probe said of an image with these variables. Throws IMAGE_UNSUITABLE. */
export function factsOf(
  name: string,
  id: string,
  { code, stdout, stderr }: ProbeOutput,
  variables: readonly (readonly [string, string])[],
): ImageFacts {
  let answer: z.output<typeof probeAnswer>;
  try {
    answer = probeAnswer.parse(JSON.parse(code === 0 ? stdout : ""));
  } catch {
    throw noPython(name, (stderr || stdout).trim().split("\n").at(-1) || `exit code ${code}`);
  }
  const { version, python, paths, packages } = answer;
  const [major, minor] = version.split(".").map(Number);
  if (major !== 3 || minor! < PYTHON_MINOR_MIN) {
    throw unsuitable(
      `The image ${name} has Python ${version}; workers need 3.${PYTHON_MINOR_MIN} or newer.`,
      "Use an image with a newer python3.",
    );
  }
  const env = Object.fromEntries(variables.filter(([key]) => !KEPT_ANYWAY.test(key)));
  return { id, pythonVersion: version, python, packagePaths: paths, packages, env };
}

function noPython(name: string, detail: string): SvcError {
  return unsuitable(
    `The image ${name} has no python3 that runs: ${detail}.`,
    `Workers need python3 of version 3.${PYTHON_MINOR_MIN} or newer on the image's PATH; nothing else.`,
  );
}

/** Runs a command in a container that can reach nothing, to its end. */
async function runOnce(
  engine: Engine,
  image: string,
  command: string[],
  labels: Readonly<Record<string, string>>,
  runtime: string,
) {
  const container = await createContainer(engine, {
    Image: image,
    Entrypoint: [],
    Cmd: command,
    User: "65534:65534",
    Labels: { ...labels, [LABEL.probe]: "1" },
    NetworkDisabled: true,
    HostConfig: {
      Runtime: runtime === "" ? undefined : runtime,
      NetworkMode: "none",
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges:true"],
      LogConfig: { Type: "json-file", Config: {} },
    },
  });
  try {
    await answered(container.start());
    const { StatusCode } = (await container.wait()) as { StatusCode: number };
    const read = async (stdout: boolean) => {
      const raw = await answered(container.logs({ stdout, stderr: !stdout, follow: false }));
      return withoutStreamHeaders(raw as unknown as Buffer);
    };
    return { code: StatusCode, stdout: await read(true), stderr: await read(false) };
  } finally {
    await removeContainer(container);
  }
}

/** A container's output comes in blocks, each behind eight bytes: stream, three zeros, length. */
export function withoutStreamHeaders(raw: Buffer): string {
  const parts: Buffer[] = [];
  for (let at = 0; at + 8 <= raw.length; ) {
    const end = at + 8 + raw.readUInt32BE(at + 4);
    parts.push(raw.subarray(at + 8, end));
    at = end;
  }
  return Buffer.concat(parts).toString("utf8");
}

function missing(names: readonly string[]): SvcError {
  return new SvcError("IMAGE_MISSING", `This machine has no image ${names.at(-1)}.`);
}

function unsuitable(message: string, help: string): SvcError {
  return new SvcError("IMAGE_UNSUITABLE", message, { help });
}
