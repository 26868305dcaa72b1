/**
 * Builds and lists the default images: a base with Python, the runtime, and the packages that artifacts leave out.
 *
 *   base (an image, or a root file system) ─▶ which packages does it lack? ─▶ install those here ─▶ engine builds
 *
 * Packages are installed on this machine, with its settings for the index, and copied in: the build itself needs no network.
 */
import { mkdtemp, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { CPU_IMAGE, GPU_IMAGE } from "../../domain/endpoint.ts";
import { SvcError } from "../../domain/errors.ts";
import { VERSION } from "../../domain/version.ts";
import { packTar, type TarEntry } from "../../lib/tar-pack.ts";
import { answered, type ConnectedEngine, engineWords, followed } from "./engine.ts";
import { type BaseChoice, findBase } from "./image-base.ts";
import { versionTag } from "./image-check.ts";
import { ImageShelf } from "./image-facts.ts";
import { installInto } from "./image-packages.ts";
import { LABEL } from "./labels.ts";
import { isMet, normalizedName } from "./requirement.ts";

export interface ImageBuild {
  readonly kind: "cpu" | "gpu";
  readonly base?: BaseChoice;
  /** Requirements the image has to meet. */
  readonly packages: readonly string[];
  /** Its name; undefined: the name that endpoints look for. */
  readonly tag?: string | undefined;
}

export interface ListedImage {
  readonly names: readonly string[];
  readonly kind: string;
  readonly version: string;
  readonly python: string;
  /** "numpy==2.1.0" */
  readonly packages: readonly string[];
  readonly architecture: string;
  readonly sizeBytes: number;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
}

interface Assembly {
  readonly dockerfile: string;
  /** Folder with what was installed, below `packages`. */
  readonly work: string;
  readonly base: string;
  readonly kind: ImageBuild["kind"];
  readonly name: string;
}

interface WorkshopOptions extends ConnectedEngine {
  /** Folder that holds the Python package `svc`. */
  readonly pythonPath: string;
  /** Folder that holds cpu/Dockerfile and gpu/Dockerfile. */
  readonly dockerfiles: string;
  /** Of pip and uv. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

export class ImageWorkshop {
  readonly #options: WorkshopOptions;
  readonly #shelf: ImageShelf;

  constructor(options: WorkshopOptions) {
    this.#options = options;
    this.#shelf = new ImageShelf(options.engine, options.facts.architecture);
  }

  /** `report` gets a line for each step. Throws SvcError. */
  async build(build: ImageBuild, report: (line: string) => void): Promise<ListedImage> {
    const dockerfile = await readFile(path.join(this.#options.dockerfiles, build.kind, "Dockerfile"), "utf8");
    const { engine, env } = this.#options;
    const python = env.SVC_PYTHON ?? "python3";
    const base = await findBase(build.base, { engine, shelf: this.#shelf, dockerfile, python, report });
    const work = await mkdtemp(path.join(tmpdir(), "svc-image-"));
    try {
      const { packages, pythonVersion } = await this.#shelf.find([base.name]);
      const requirements = build.packages.filter((requirement) => {
        const version = packages[normalizedName(requirement)];
        return version === undefined || !isMet(requirement, version);
      });
      if (requirements.length > 0) {
        await installInto({ target: path.join(work, "packages"), pythonVersion, requirements, env, report });
      }
      report("building the image");
      const imageName = build.kind === "cpu" ? CPU_IMAGE : GPU_IMAGE;
      const names = build.tag === undefined ? [imageName, versionTag(imageName, pythonVersion)] : [build.tag];
      await this.#assemble({ dockerfile, work, base: base.name, kind: build.kind, name: names[0]! });
      return await this.#label(names, build);
    } finally {
      await rm(work, { recursive: true, force: true });
      await base.forget();
    }
  }

  /** Images that `build` made, newest first. */
  async list(): Promise<ListedImage[]> {
    const { engine } = this.#options;
    const found = await answered(engine.listImages({ filters: { label: [LABEL.image] } }));
    const named = found.filter(({ RepoTags }) => (RepoTags ?? []).some((tag) => tag !== "<none>:<none>"));
    const images = await Promise.all(named.map(({ Id }) => this.#describe(Id)));
    return images.sort((a, b) => b.createdAt - a.createdAt);
  }

  async #describe(id: string): Promise<ListedImage> {
    const image = await answered(this.#options.engine.getImage(id).inspect());
    const labels = image.Config.Labels ?? {};
    return {
      names: [...(image.RepoTags ?? [])].sort(),
      kind: labels[LABEL.image] ?? "",
      version: labels[LABEL.version] ?? "",
      python: labels[LABEL.python] ?? "",
      packages: (labels[LABEL.packages] ?? "").split(",").filter(Boolean),
      architecture: image.Architecture,
      sizeBytes: image.Size,
      createdAt: Date.parse(image.Created),
    };
  }

  /** The engine builds `name` from the runtime and the packages that lie in `work`. */
  async #assemble({ dockerfile, work, base, kind, name }: Assembly): Promise<void> {
    const { engine, pythonPath } = this.#options;
    const context = packTar(
      folderEntries([
        { name: "Dockerfile", content: Buffer.from(dockerfile) },
        { name: "svc", dir: path.join(pythonPath, "svc") },
        { name: "packages", dir: path.join(work, "packages") },
      ]),
    );
    const options = {
      t: name,
      buildargs: { BASE: base },
      labels: { [LABEL.image]: kind, [LABEL.version]: VERSION },
      pull: false,
      rm: true,
      forcerm: true,
    };
    try {
      await followed(await engine.buildImage(Readable.from(context), options));
    } catch (error) {
      throw new SvcError("BUILD_FAILED", `The image could not be built: ${engineWords(error)}.`, {
        where: path.join(this.#options.dockerfiles, kind, "Dockerfile"),
      });
    }
  }

  /** What the image really holds is asked of it, and written on it for `list`. */
  async #label(names: readonly string[], build: ImageBuild): Promise<ListedImage> {
    const { engine } = this.#options;
    const facts = await this.#shelf.find([names[0]!]);
    const wanted = build.packages.map(normalizedName);
    const lacks = wanted.filter((name) => !(name in facts.packages));
    if (lacks.length > 0) {
      throw new SvcError("BUILD_FAILED", `The image was built, but Python does not find ${lacks.join(", ")} in it.`);
    }
    const packages = wanted.map((name) => `${name}==${facts.packages[name]}`).join(",");
    const context = packTar([{ name: "Dockerfile", content: Buffer.from(`FROM ${names[0]}\n`) }]);
    const labels = { [LABEL.packages]: packages, [LABEL.python]: facts.pythonVersion };
    await followed(await engine.buildImage(Readable.from(context), { t: names[0]!, labels, rm: true }));
    for (const name of names.slice(1)) {
      const colon = name.lastIndexOf(":");
      await engine.getImage(names[0]!).tag({ repo: name.slice(0, colon), tag: name.slice(colon + 1) });
    }
    return this.#describe(names[0]!);
  }
}

type Part =
  | { readonly name: string; readonly content: Uint8Array }
  /** A folder that is not there counts as empty. */
  | { readonly name: string; readonly dir: string };

/** What the engine gets to build an image of: single files, and folders without what Python leaves behind. */
async function* folderEntries(parts: readonly Part[]): AsyncGenerator<TarEntry> {
  for (const part of parts) {
    if ("content" in part) yield part;
    else yield* walk(part.name, part.dir);
  }
}

async function* walk(name: string, dir: string): AsyncGenerator<TarEntry> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(() => []);
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const inside = `${name}/${entry.name}`;
    const file = path.join(dir, entry.name);
    if (entry.name === "__pycache__") continue;
    if (entry.isDirectory()) yield* walk(inside, file);
    else if (entry.isSymbolicLink()) yield { name: inside, linkTo: await readlink(file) };
    else if (entry.isFile()) {
      const { size, mode } = await stat(file);
      yield { name: inside, file, size, executable: (mode & 0o111) !== 0 };
    }
  }
}
