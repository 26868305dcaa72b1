import { nearest } from "../../domain/names.ts";
import { CONFIG_KEYS } from "../../server/config.ts";
import type { CliContext } from "../context.ts";

const PREFIX = "SVC_";

/** Variables that are almost settings of the platform, which nobody reads. */
export function warnOfUnknown({ terminal, env }: Pick<CliContext, "terminal" | "env">): void {
  const settings = CONFIG_KEYS.map((key) => key.slice(PREFIX.length));
  for (const key of Object.keys(env)) {
    if (!key.startsWith(PREFIX) || CONFIG_KEYS.includes(key)) continue;
    const [meant] = nearest(key.slice(PREFIX.length), settings, 1);
    if (meant !== undefined) terminal.warn(`${key} is no setting. Did you mean ${PREFIX}${meant}?`);
  }
}
