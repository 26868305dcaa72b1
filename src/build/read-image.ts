/** `image=` and `system_dependencies=`: the image's name, and what is built on it. */
import { type ImageStep, imageStepsProblems, packageProblem } from "../domain/image-steps.ts";
import { SYSTEM_PACKAGES_MAX } from "../domain/limits.ts";
import type { Value } from "./facts.ts";
import { type Complaints, readTexts } from "./read-server.ts";

interface ReadImage {
  /** undefined: the platform's own. */
  readonly name: string | undefined;
  readonly steps: readonly ImageStep[];
}

const WANTED = 'a text such as "python:3.12-slim", or an Image such as Image.debian().apt("ffmpeg")';

export function readImage(value: Value | undefined, complaints: Complaints): ReadImage {
  if (value === undefined) return { name: undefined, steps: [] };
  if (value.kind === "string") return { name: value.value, steps: [] };
  if (value.kind !== "made" || value.class !== "Image") {
    complaints.unknown(value, "image", WANTED);
    return { name: undefined, steps: [] };
  }
  const [start, ...rest] = value.arguments;
  const names = start === undefined ? [] : (readTexts(start[1], "image", '"python:3.12-slim"', complaints) ?? []);
  const wanted = start?.[0] === "debian" ? 0 : 1;
  if (names.length !== wanted) {
    const help = 'Write Image.from_registry("python:3.12-slim"), or Image.debian() for the platform\'s own.';
    complaints.error(value, `Image.${start?.[0]}() takes ${wanted === 0 ? "nothing" : "the name of an image"}.`, help);
  }
  const steps = rest.flatMap(([method, given]) => stepsOf(method ?? "", given, complaints));
  const problems = imageStepsProblems(steps);
  for (const problem of problems)
    complaints.error(value, problem, "docs/reference/images.md says what each step takes.");
  return { name: names[0], steps };
}

function stepsOf(method: string, given: Value, complaints: Complaints): ImageStep[] {
  if (method === "env") {
    const entries = given.kind === "dict" ? given.entries : [];
    const pairs = entries.map(([name, value]) => {
      if (name.kind === "string" && value.kind === "string") return [name.value, value.value] as const;
      return complaints.unknown(value, "image", 'texts by name, as in .env(MODE="fast"), for what is no secret');
    });
    return [{ env: Object.fromEntries(pairs.filter((pair) => pair !== undefined)) }];
  }
  const texts =
    readTexts(given, "image", method === "apt" ? '.apt("ffmpeg")' : '.run("make install")', complaints) ?? [];
  return method === "apt" ? (texts.length > 0 ? [{ apt: texts }] : []) : texts.map((run) => ({ run }));
}

export function readSystemDependencies(value: Value | undefined, complaints: Complaints): string[] {
  if (value === undefined) return [];
  const wanted = 'a list of texts such as ["ffmpeg"]';
  if (value.kind !== "list") return complaints.unknown(value, "system_dependencies", wanted) ?? [];
  if (value.items.length > SYSTEM_PACKAGES_MAX) {
    const message = `There may be ${SYSTEM_PACKAGES_MAX} system packages, not ${value.items.length}.`;
    complaints.error(value, message, "Make an image that has them.");
  }
  return value.items.flatMap((item) => {
    if (item.kind !== "string") return complaints.unknown(item, "system_dependencies", wanted) ?? [];
    const problem = packageProblem(item.value);
    if (problem === undefined) return item.value;
    return complaints.error(item, problem, "Each text names one package, without options of apt.") ?? [];
  });
}
