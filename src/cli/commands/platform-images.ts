import { buildCommand, buildRouteMap } from "@stricli/core";
import { jsonFlag, switchFlag, withExamples } from "../flags.ts";

const text = (placeholder: string, brief: string) =>
  ({ kind: "parsed", parse: String, optional: true, placeholder, brief }) as const;

const buildSpec = buildCommand({
  loader: async () => (await import("../actions/platform-images.ts")).buildImage,
  parameters: {
    flags: {
      gpu: switchFlag("Build the image of GPU endpoints instead of that of CPU endpoints"),
      base: text("IMAGE", "Image to build on; default: a slim Python, for --gpu an ML framework with CUDA"),
      rootfs: text("DIR|TAR", "Root file system with python3 to build on, where no registry is reachable"),
      packages: text(
        "LIST",
        "Packages it has to have; default: torch,torchvision,torchaudio,numpy,triton; none for none",
      ),
      tag: text("NAME", "Name of the image; default: the one that endpoints look for"),
      json: jsonFlag,
    },
  },
  docs: {
    brief: "Build the image that workers run in",
    fullDescription: withExamples(
      "Builds the image of CPU or GPU endpoints for a platform with SVC_DRIVER=docker: a base with Python, the worker runtime, " +
        "and the packages that artifacts leave out. Those that the base lacks are installed from the package index.",
      [
        ["svc platform images build", "On a slim Python from the registry"],
        ["svc platform images build --gpu", "The image of GPU endpoints"],
        ["svc platform images build --rootfs bookworm.tar --packages numpy", "Without a registry, and light"],
      ],
    ),
  },
});

const listSpec = buildCommand({
  loader: async () => (await import("../actions/platform-images.ts")).listImages,
  parameters: { flags: { json: jsonFlag } },
  docs: {
    brief: "List the images that were built",
    fullDescription: withExamples("Lists the images that `svc platform images build` made on this machine.", [
      ["svc platform images list", "Names, Python and packages"],
      ["svc platform images list --json", "The same for programs"],
    ]),
  },
});

export const imagesRoutes = buildRouteMap({
  routes: { build: buildSpec, list: listSpec },
  docs: { brief: "Container images that workers run in" },
});
