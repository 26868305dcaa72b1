/**
 * Live endpoints: what `svc run` deploys. They live in the project's app, in an environment of this user, machine and
 * folder, so that two people on one platform do not meet; their names carry the prefix too.
 */
import { createHash } from "node:crypto";
import { userInfo } from "node:os";
import type { LayersBuild } from "../build/build-layers.ts";
import type { EnvValues } from "../domain/env.ts";
import type { Manifest } from "../domain/manifest.ts";
import { LIVE_PREFIX, suggestName } from "../domain/names.ts";

/** Has a worker listen for a debugger. */
export const DEBUG_VARIABLE = "SVC_DEBUG";
const USER_MAX_CHARS = 32;
const HASH_CHARS = 4;

export interface LivePlace {
  readonly app: string;
  readonly environment: string;
}

/** An id need not have an account, as in a container. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user-${process.getuid?.() ?? ""}`;
  }
}

/** `live-<user>-<4 hex>` */
export function liveEnvironment(who: { readonly user: string; readonly host: string; readonly projectDir: string }) {
  const user = suggestName(who.user).slice(0, USER_MAX_CHARS);
  return `${LIVE_PREFIX}${user}-${hashOf([who.user, who.host, who.projectDir]).slice(0, HASH_CHARS)}`;
}

/** `hello` → `live-hello` */
export function liveName(name: string): string {
  return LIVE_PREFIX + name;
}

export interface LiveBuild {
  readonly manifest: Manifest;
  readonly env: Readonly<Record<string, EnvValues>>;
}

/**
 * The part of a build that some of its endpoints need, as live endpoints: as declared, but without schedules and standing workers (one
 * where a debugger attaches), and closed to callers without a key.
 */
export function liveBuild({ manifest, env }: LayersBuild, names: readonly string[]): LiveBuild {
  const chosen = names.filter((name) => manifest.resources[name] !== undefined);
  const pick = <T>(record: Readonly<Record<string, T>>) =>
    Object.fromEntries(
      chosen.flatMap((name) => (record[name] === undefined ? [] : [[liveName(name), record[name]] as const])),
    );
  const resources = Object.entries(pick(manifest.resources)).map(([name, resource]) => {
    const workersMin = pick(env)[name]?.[DEBUG_VARIABLE] === undefined ? 0 : 1;
    return [name, { ...resource, workersMin, schedule: null, publicRoutes: "" }] as const;
  });
  const live = { ...manifest, resources: Object.fromEntries(resources), routes: pick(manifest.routes) };
  return { manifest: live, env: pick(env) };
}

/** Changes with everything about the endpoint but the project's files: settings, dependencies, variables, routes. */
export function configurationHash({ manifest, env }: LayersBuild, name: string): string {
  return hashOf([manifest.resources[name], manifest.routes[name], env[name]]).slice(0, 32);
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}
