import type { ControlPlane } from "../../client/control-plane.ts";
import { SvcError } from "../../domain/errors.ts";
import { checkName, detectedApp } from "../project-settings.ts";

export const ENVIRONMENT_DEFAULT = "production";

export interface Target {
  readonly app: string;
  readonly environment: string;
  readonly newApp: boolean;
  readonly newEnvironment: boolean;
}

/**
 * Where a deploy goes. The app is the directory's unless it is given. The environment is the given one, else the
 * only one there is, else production; with several the user must choose.
 */
export async function resolveTarget(
  controlPlane: ControlPlane,
  projectDir: string,
  flags: { readonly app?: string; readonly env?: string },
): Promise<Target> {
  const app = flags.app === undefined ? detectedApp(projectDir) : checkName(flags.app, "--app");
  const given = flags.env === undefined ? undefined : checkName(flags.env, "--env");
  const existing = await controlPlane.environmentNames(app);
  const environment = given ?? chooseEnvironment(existing ?? []);
  return {
    app,
    environment,
    newApp: existing === null,
    newEnvironment: !(existing ?? []).includes(environment),
  };
}

/** Throws MULTIPLE_ENVIRONMENTS when there is more than one. */
export function chooseEnvironment(existing: readonly string[]): string {
  if (existing.length > 1) {
    throw new SvcError("MULTIPLE_ENVIRONMENTS", `Multiple environments found: ${[...existing].sort().join(", ")}`, {
      help: "Give --env NAME.",
    });
  }
  return existing[0] ?? ENVIRONMENT_DEFAULT;
}
