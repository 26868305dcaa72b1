/** Secrets: texts of an environment that `Secret("name")` in `env=` refers to. */
import { SECRET_NAME_MAX_CHARS } from "./limits.ts";

const NAME = /^[A-Za-z_][A-Za-z0-9_.-]*$/;

/** Whether `name` can name a secret: letters, digits, `_`, `-` and `.`, no digit first. */
export function isSecretName(name: string): boolean {
  return NAME.test(name) && name.length <= SECRET_NAME_MAX_CHARS;
}

/** What a sealed secret is bound to, so that it opens in its own place only. */
export function secretLabel(environmentId: string, name: string): string {
  return `${environmentId}/${name}`;
}
