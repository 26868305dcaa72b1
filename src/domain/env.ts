/** Environment variables of an endpoint's workers: a text, or the name of a secret that is looked up at their start. */

import { ENVIRONMENT_MAX_BYTES } from "./limits.ts";

export type EnvValue = string | { readonly secret: string };
export type EnvValues = Readonly<Record<string, EnvValue>>;

const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

export function isEnvName(text: string): boolean {
  return ENV_NAME.test(text);
}

/** Names of the secrets that the variables refer to, each once. */
export function secretNames(env: EnvValues): string[] {
  return [...new Set(Object.values(env).flatMap((value) => (typeof value === "string" ? [] : [value.secret])))];
}

/** Why no worker could be started with these variables; undefined when one can. `secretBytes` is the size of a value. */
export function environmentProblem(
  endpoint: string,
  env: EnvValues,
  secretBytes: (secret: string) => number,
): string | undefined {
  let bytes = 0;
  for (const [name, value] of Object.entries(env)) {
    const size = typeof value === "string" ? Buffer.byteLength(value) : secretBytes(value.secret);
    bytes += Buffer.byteLength(name) + size + 2; // As the kernel has it: NAME=value and a zero byte.
  }
  if (bytes <= ENVIRONMENT_MAX_BYTES) return undefined;
  return `The variables of endpoint "${endpoint}", with the values of its secrets, have ${bytes} bytes together; at most ${ENVIRONMENT_MAX_BYTES} are possible. Put large ones into a file of the project, a volume, or the input.`;
}
