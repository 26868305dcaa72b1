/** What went into a build and why, for `svc build --explain` and its `--json`. */
import { megabytes } from "./artifact-size.ts";
import type { ProjectBuild } from "./build.ts";

export interface Explanation {
  readonly title: string;
  /** What, and why it is so. */
  readonly rows: readonly { readonly what: string; readonly why: string }[];
}

export function explainBuild(build: ProjectBuild): Explanation[] {
  const { scan, dependencies, manifest } = build;
  const source = build.layers.find((layer) => layer.kind === "source")!;
  return [
    {
      title: "Endpoints",
      rows: scan.endpoints.map((endpoint) => {
        const functions = endpoint.functions.map((each) => `${each.module}.${each.name}`).join(", ");
        const machine = endpoint.settings.gpuIds || endpoint.settings.instanceIds;
        const { file, line } = endpoint.place;
        return {
          what: endpoint.name,
          why: `${endpoint.kind}, ${functions}, on ${machine}, declared in ${file}:${line}`,
        };
      }),
    },
    {
      title: `Source layer ${source.digest.slice(0, 12)} (${megabytes(source.sizeBytes)})`,
      rows: [
        ...scan.endpoints.map(({ name }) => ({ what: `handlers/${name}.py`, why: `generated for endpoint "${name}"` })),
        ...scan.files.files.map((file) => ({
          what: `src/${file.path}`,
          why: file.linkTo === undefined ? megabytes(file.sizeBytes) : `a link to ${file.linkTo}`,
        })),
      ],
    },
    {
      title: "Files left out",
      rows: scan.files.dropped.map(({ path, rule }) => ({ what: path, why: `by ${rule}` })),
    },
    ...dependencies.map(({ set, layer }) => ({
      title: `Dependency layer ${layer.digest.slice(0, 12)} (${megabytes(layer.sizeBytes)}), Python ${set.pythonVersion}, for ${set.endpoints.map(({ name }) => name).join(", ")}, ${layer.cached ? "from the cache" : "newly installed"}`,
      rows: layer.packages.map((each) => {
        const declared = set.requirements.find((requirement) => requirement.name === each.name);
        const why = declared === undefined ? "asked for by another package" : `declared as "${declared.text}"`;
        return { what: `${each.name} ${each.version}`, why: `${megabytes(each.sizeBytes)}, ${why}` };
      }),
    })),
    {
      title: "Packages left out",
      rows: Object.entries(build.leftOut).flatMap(([endpoint, requirements]) =>
        requirements.map((requirement) => ({
          what: requirement,
          why: `endpoint "${endpoint}" gets it from ${manifest.resources[endpoint]!.imageName} or a base layer`,
        })),
      ),
    },
  ].filter(({ rows }) => rows.length > 0);
}
