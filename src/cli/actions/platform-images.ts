import { SvcError } from "../../domain/errors.ts";
import { BASE_PACKAGES } from "../../domain/manifest.ts";
import { type ListedImage, openImageWorkshop } from "../../server/images.ts";
import type { CliContext } from "../context.ts";

interface BuildFlags {
  readonly gpu?: boolean;
  readonly base?: string;
  readonly rootfs?: string;
  readonly packages?: string;
  readonly tag?: string;
  readonly json?: boolean;
}

export async function buildImage(this: CliContext, flags: BuildFlags): Promise<void> {
  const { terminal } = this;
  if (flags.base !== undefined && flags.rootfs !== undefined) {
    throw new SvcError("USAGE", "--base and --rootfs exclude each other.", { help: "Give the one to build on." });
  }
  const workshop = await openImageWorkshop(this.env);
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
}

export async function listImages(this: CliContext, flags: { readonly json?: boolean }): Promise<void> {
  const images = await (await openImageWorkshop(this.env)).list();
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
}

function baseOf({ base, rootfs }: BuildFlags) {
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
