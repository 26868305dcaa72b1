/** Environment variables of an endpoint's workers: a text, or the name of a secret that is looked up at their start. */

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
