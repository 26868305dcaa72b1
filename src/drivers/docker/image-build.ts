/**
 * Builds what an endpoint wants on its base image: one image for each content, so that it is built once.
 *
 *   base image's id + steps ─▶ digest ─▶ svc/built:<digest>, if it is not there ─▶ the engine's classic builder
 *
 * Steps come from whoever deploys. Each becomes one instruction in a form that cannot hold another: arguments as JSON, values quoted.
 */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { SvcError } from "../../domain/errors.ts";
import type { ImageStep } from "../../domain/image-steps.ts";
import { IMAGE_BUILD_LINES, IMAGE_BUILD_MAX_MS } from "../../domain/limits.ts";
import { LastLines } from "../../lib/last-lines.ts";
import { packTar } from "../../lib/tar-pack.ts";
import { answered, type Engine, engineWords, followed, hasStatus } from "./engine.ts";
import { LABEL } from "./labels.ts";

export const BUILT = "svc/built";

export interface BuildOnImage {
  readonly engine: Engine;
  /** Of the base image. */
  readonly baseId: string;
  readonly steps: readonly ImageStep[];
  /** Written on it. */
  readonly labels: Readonly<Record<string, string>>;
  /** Proxies of this machine, for the build alone. */
  readonly proxies: Readonly<Record<string, string>>;
  readonly endpointName: string;
  readonly report: (line: string) => void;
}

/** The name of the image, which is there then. Throws BUILD_FAILED with the last that the build said. */
export async function buildOnImage(build: BuildOnImage): Promise<string> {
  const { engine, baseId, steps, labels, proxies, report } = build;
  const name = builtName(baseId, steps);
  if (await isThere(engine, name)) return name;
  const printed = new LastLines(IMAGE_BUILD_LINES, (line) => {
    if (/^Step \d+/.test(line)) report(`building its image: ${line.slice(0, 120)}`);
  });
  report("building its image");
  try {
    const context = packTar([{ name: "Dockerfile", content: Buffer.from(dockerfileOf(baseId, steps)) }]);
    const options = {
      t: name,
      labels: { ...labels, [LABEL.built]: "1" },
      buildargs: proxies,
      pull: false,
      rm: true,
      forcerm: true,
      abortSignal: AbortSignal.timeout(IMAGE_BUILD_MAX_MS),
    };
    const stream = await engine.buildImage(Readable.from(context), options);
    await followed(stream, ({ stream: text = "" }) => printed.add(text));
  } catch (error) {
    printed.end();
    const why =
      (error as Error).name === "TimeoutError"
        ? `it took over ${IMAGE_BUILD_MAX_MS / 60_000} minutes`
        : engineWords(error);
    throw new SvcError("BUILD_FAILED", `The image of endpoint "${build.endpointName}" could not be built: ${why}.`, {
      help: `The last that the build said:\n${printed.lines.join("\n")}`,
    });
  }
  return name;
}

export function builtName(baseId: string, steps: readonly ImageStep[]): string {
  return `${BUILT}:${createHash("sha256").update(dockerfileOf(baseId, steps)).digest("hex").slice(0, 32)}`;
}

/** Exported for its test. */
export function dockerfileOf(baseId: string, steps: readonly ImageStep[]): string {
  const lines = steps.map((step) => {
    if ("apt" in step) return `RUN ${JSON.stringify(["/bin/sh", "-c", APT, "apt", ...step.apt])}`;
    if ("run" in step) return `RUN ${JSON.stringify(["/bin/sh", "-c", `${IN_ORDER}${step.run}`])}`;
    return Object.entries(step.env)
      .map(([name, value]) => `ENV ${name}="${value.replace(/["\\$]/g, "\\$&")}"`)
      .join("\n");
  });
  return [`FROM ${baseId}`, "USER 0", ...lines.filter((line) => line !== ""), ""].join("\n");
}

/** Both outputs by one pipe: by two the engine may pass on why it failed first, and more lines behind it than are shown. */
const IN_ORDER = "exec 2>&1; ";

/** Names are names: no options, no patterns, nothing that asks. */
const APT =
  `${IN_ORDER}set -e; export DEBIAN_FRONTEND=noninteractive; apt-get update; ` +
  'apt-get install -y --no-install-recommends -o APT::Cmd::Pattern-Only=true -- "$@"; rm -rf /var/lib/apt/lists/*';

async function isThere(engine: Engine, name: string): Promise<boolean> {
  try {
    await answered(engine.getImage(name).inspect());
    return true;
  } catch (error) {
    if (hasStatus(error, 404)) return false;
    throw error;
  }
}

/** Removes what was built for this platform, is none of `keep` and was made before (milliseconds since the epoch). */
export async function removeBuilt(
  engine: Engine,
  label: string,
  keep: ReadonlySet<string>,
  before: number,
): Promise<void> {
  const found = await answered(engine.listImages({ filters: { label: [`${LABEL.built}=1`, label] } }));
  for (const { Id, RepoTags, Created } of found) {
    if (Created * 1000 >= before || (RepoTags ?? []).some((tag) => keep.has(tag))) continue;
    await answered(engine.getImage(Id).remove({ force: true })).catch(() => {}); // A container still has it.
  }
}

/** What programs of a build need to reach the world where this machine has to ask for it. */
export function proxiesOf(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const named = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(named.filter(([name]) => /^(https?|no)_proxy$/i.test(name)));
}
