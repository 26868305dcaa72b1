import { BASE_PACKAGES } from "../../domain/base-requirement.ts";
import { SvcError } from "../../domain/errors.ts";
import type { ListedImage } from "../../server/images.ts";
import { command, type FlagsOf, group, jsonFlag, switchFlag, valueFlag } from "../command.ts";

/** The engine's client and its rules load when images are asked for. */
const openWorkshop = async (env: NodeJS.ProcessEnv) => (await import("../../server/images.ts")).openImageWorkshop(env);

const buildFlags = {
  gpu: switchFlag("Build the image of GPU endpoints instead of that of CPU endpoints"),
  base: valueFlag("IMAGE", "Image to build on; default: a slim Python, for --gpu an ML framework with CUDA"),
  rootfs: valueFlag("DIR|TAR", "Root file system with python3 to build on, where no registry is reachable"),
  packages: valueFlag(
    "LIST",
    "Packages it has to have; default: torch,torchvision,torchaudio,numpy,triton; none for none",
  ),
  tag: valueFlag("NAME", "Name of the image; default: the one that endpoints look for"),
  json: jsonFlag,
};

const buildImage = command({
  brief: "Build the image that workers run in",
  text:
    "Builds the image of CPU or GPU endpoints for a platform with SVC_DRIVER=docker: a base with Python, the worker runtime, " +
    "and the packages that artifacts leave out. Those that the base lacks are installed from the package index.",
  examples: [
    ["svc platform images build", "On a slim Python from the registry"],
    ["svc platform images build --gpu", "The image of GPU endpoints"],
    ["svc platform images build --rootfs bookworm.tar --packages numpy", "Without a registry, and light"],
  ],
  flags: buildFlags,
  async run(flags) {
    const { terminal } = this;
    if (flags.base !== undefined && flags.rootfs !== undefined) {
      throw new SvcError("USAGE", "--base and --rootfs exclude each other.", { help: "Give the one to build on." });
    }
    const workshop = await openWorkshop(this.env);
    const progress = await terminal.progress("Building the image");
    let image: ListedImage;
    try {
      image = await workshop.build(
        {
          kind: flags.gpu ? "gpu" : "cpu",
          base: baseOf(flags),
          packages: packagesOf(flags.packages),
          tag: flags.tag,
        },
        (line) => progress.update(line),
      );
    } catch (error) {
      progress.done();
      throw error;
    }
    progress.done(`Built ${image.names.join(", ")}`);
    if (flags.json) return terminal.json(shown(image));
    terminal.out(`Python    ${image.python}`);
    terminal.out(`Packages  ${image.packages.join(", ") || "none"}`);
    terminal.out(`Size      ${megabytes(image.sizeBytes)}`);
  },
});

const listImages = command({
  brief: "List the images that were built",
  text: "Lists the images that `svc platform images build` made on this machine.",
  examples: [
    ["svc platform images list", "Names, Python and packages"],
    ["svc platform images list --json", "The same for programs"],
  ],
  flags: { json: jsonFlag },
  async run(flags) {
    const images = await (await openWorkshop(this.env)).list();
    if (flags.json) return this.terminal.json(images.map(shown));
    if (images.length === 0) {
      return this.terminal.note("No image was built on this machine yet. svc platform images build makes one.");
    }
    await this.terminal.table(
      ["IMAGE", "KIND", "PYTHON", "PACKAGES", "ARCHITECTURE", "SIZE"],
      images.map((image) => [
        image.names.join("\n"),
        image.kind,
        image.python,
        image.packages.join(" ") || "none",
        image.architecture,
        megabytes(image.sizeBytes),
      ]),
    );
  },
});

export const imagesCommands = group("Container images that workers run in", { build: buildImage, list: listImages });

function baseOf({ base, rootfs }: FlagsOf<typeof buildFlags>) {
  if (rootfs !== undefined) return { rootfs };
  return base === undefined ? undefined : { image: base };
}

function packagesOf(list: string | undefined): string[] {
  if (list === undefined) return [...BASE_PACKAGES];
  // "numpy>=1.26,<3" is one of them.
  return list
    .split(/,(?=\s*[A-Za-z])/)
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "none");
}

function shown({ createdAt, ...image }: ListedImage) {
  return { ...image, createdAt: new Date(createdAt).toISOString() };
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1_000_000)} MB`;
}
