/** What is built on an endpoint's container image: `system_dependencies=`, and the steps of `svc.Image`. */

import { CPU_IMAGE, GPU_IMAGE } from "./endpoint.ts";
import { isEnvName } from "./env.ts";
import { IMAGE_STEP_MAX_CHARS, IMAGE_STEPS_MAX, SYSTEM_PACKAGES_MAX } from "./limits.ts";

export type ImageStep =
  /** Packages of the image's Debian or Ubuntu: "ffmpeg", "git=1:2.39.5-0+deb12u2". */
  | { readonly apt: string[] }
  /** A line for /bin/sh, run as root while the image is built. */
  | { readonly run: string }
  /** Variables, for later steps and for workers. */
  | { readonly env: Record<string, string> };

/** Debian Policy 5.6.1, without the `-` at the end that apt takes for "remove it", and 5.6.12. */
const PACKAGE = /^[a-z0-9][a-z0-9+.-]*[a-z0-9+](=[0-9A-Za-z][0-9A-Za-z.+~:-]*)?$/;

export function packageProblem(text: string): string | undefined {
  if (PACKAGE.test(text) && text.length <= 200) return undefined;
  return `${JSON.stringify(text)} is no Debian package: a name such as "ffmpeg" or "libgl1", perhaps with a version ("git=1:2.39.5-0+deb12u2").`;
}

/** Every rule they break, as sentences; empty when all hold. */
export function systemPackagesProblems(packages: readonly string[]): string[] {
  const problems = packages.flatMap((each) => packageProblem(each) ?? []);
  if (packages.length > SYSTEM_PACKAGES_MAX)
    problems.push(`There may be ${SYSTEM_PACKAGES_MAX} system packages, not ${packages.length}.`);
  return problems;
}

/** Every rule they break, as sentences; empty when all hold. */
export function imageStepsProblems(steps: readonly ImageStep[]): string[] {
  const problems = steps.flatMap((step) => {
    if ("apt" in step) return systemPackagesProblems(step.apt);
    if ("run" in step) return runProblem(step.run) ?? [];
    return Object.entries(step.env).flatMap(([name, value]) => variableProblem(name, value) ?? []);
  });
  if (steps.length > IMAGE_STEPS_MAX) problems.push(`An Image may have ${IMAGE_STEPS_MAX} steps, not ${steps.length}.`);
  return problems;
}

function runProblem(line: string): string | undefined {
  if (line.trim() === "") return "A line of .run() is empty.";
  if (line.length > IMAGE_STEP_MAX_CHARS)
    return `A line of .run() has ${line.length} characters; at most ${IMAGE_STEP_MAX_CHARS} are allowed.`;
  return line.includes("\0") ? "A line of .run() holds a NUL." : undefined;
}

function variableProblem(name: string, value: string): string | undefined {
  if (!isEnvName(name)) return `${JSON.stringify(name)} of .env() cannot name a variable.`;
  if (/[\x00-\x1f\x7f]/.test(value))
    return `The variable ${name} of .env() holds a line break or another control character.`;
  return value.length > IMAGE_STEP_MAX_CHARS
    ? `The variable ${name} of .env() has over ${IMAGE_STEP_MAX_CHARS} characters.`
    : undefined;
}

/**
 * Whether building it runs code of whoever declared it as root of the build's container: lines of `.run()`, and apt of an image of
 * their own, which may be any program. Packages on the platform's own images come from where those images say.
 */
export function buildsAsRoot(imageName: string, packages: readonly string[], steps: readonly ImageStep[]): boolean {
  const isOwn = imageName !== CPU_IMAGE && imageName !== GPU_IMAGE;
  const hasApt = packages.length > 0 || steps.some((step) => "apt" in step);
  return steps.some((step) => "run" in step) || (isOwn && hasApt);
}
