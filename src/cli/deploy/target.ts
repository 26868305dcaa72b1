import { existsSync, realpathSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import type { ControlPlane } from "../../client/control-plane.ts";
import { SvcError } from "../../domain/errors.ts";
import { isLiveName, LIVE_PREFIX } from "../../domain/names.ts";
import type { CliContext } from "../context.ts";
import { appOf, checkName } from "../project-settings.ts";

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
  const app = appOf(projectDir, flags.app);
  const given = flags.env === undefined ? undefined : checkName(flags.env, "--env");
  if (given !== undefined && isLiveName(given)) {
    throw new SvcError("INVALID_NAME", `Names that begin with "${LIVE_PREFIX}" belong to svc run.`, {
      where: "--env",
      help: `Try --env ${given.slice(LIVE_PREFIX.length) || ENVIRONMENT_DEFAULT}.`,
    });
  }
  const existing = await controlPlane.environmentNames(app);
  const environment = given ?? chooseEnvironment(existing ?? []);
  return {
    app,
    environment,
    newApp: existing === null,
    newEnvironment: !(existing ?? []).includes(environment),
  };
}

/**
 * A home folder, a folder of temporary files and the root hold much that is no project, all of which a deploy would look through and
 * ship. On a terminal the user is asked. Throws USAGE without a yes.
 */
export async function requireProjectFolder({ cwd, env, terminal }: CliContext, force = false): Promise<void> {
  const here = realpathSync(cwd);
  const isOdd = ["/", "/tmp", "/var/tmp", tmpdir(), homedir(), env.HOME].some(
    (folder) => folder && existsSync(folder) && realpathSync(folder) === here,
  );
  if (!isOdd || force) return;
  const question = `${here} is no project's own folder. Deploy all that is in it?`;
  if (terminal.interactive && (await terminal.confirm(question, false))) return;
  throw new SvcError("USAGE", `Nothing was deployed: ${here} is no project's own folder.`, {
    help: "Go to the project's folder, or give --force to deploy all that is in this one.",
  });
}

/** Throws MULTIPLE_ENVIRONMENTS when there is more than one; those of `svc run` do not count. */
export function chooseEnvironment(all: readonly string[]): string {
  const existing = all.filter((name) => !isLiveName(name));
  if (existing.length > 1) {
    throw new SvcError("MULTIPLE_ENVIRONMENTS", `Multiple environments found: ${[...existing].sort().join(", ")}`, {
      help: "Give --env NAME.",
    });
  }
  return existing[0] ?? ENVIRONMENT_DEFAULT;
}
