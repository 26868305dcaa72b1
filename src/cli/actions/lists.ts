import { SvcError } from "../../domain/errors.ts";
import { nearest } from "../../domain/names.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { checkName, detectedApp } from "../project-settings.ts";

export async function listApps(this: CliContext, flags: { readonly json?: boolean }): Promise<void> {
  const connection = (await findPlatform(this)) ?? fail();
  const apps = await connection.controlPlane.apps();
  const rows = apps.map((app) => ({
    name: app.name,
    environments: app.environments.map((environment) => environment.name),
    endpoints: app.environments.reduce((sum, environment) => sum + environment.endpoints.length, 0),
  }));
  if (flags.json) return this.terminal.json(rows);
  if (rows.length === 0) return this.terminal.note("There are no apps yet. svc deploy makes the first one.");
  await this.terminal.table(
    ["APP", "ENVIRONMENTS", "ENDPOINTS"],
    rows.map((row) => [row.name, row.environments.join(", "), String(row.endpoints)]),
  );
}

export async function listEnvironments(
  this: CliContext,
  flags: { readonly app?: string; readonly json?: boolean },
): Promise<void> {
  const connection = (await findPlatform(this)) ?? fail();
  const name = flags.app === undefined ? detectedApp(this.cwd) : checkName(flags.app, "--app");
  const apps = await connection.controlPlane.apps();
  const app = apps.find((candidate) => candidate.name === name);
  if (app === undefined && flags.app !== undefined) {
    const close = nearest(
      name,
      apps.map((candidate) => candidate.name),
    );
    throw new SvcError("NOT_FOUND", `There is no app "${name}".`, {
      help: close.length > 0 ? `Did you mean ${close.join(" or ")}?` : "svc app list shows all.",
    });
  }
  const rows = (app?.environments ?? []).map((environment) => ({
    name: environment.name,
    endpoints: environment.endpoints.length,
    buildId: environment.buildId,
  }));
  if (flags.json) return this.terminal.json(rows);
  if (rows.length === 0) {
    return this.terminal.note(
      `The app "${name}" of this directory has no environments yet. svc deploy makes the first.`,
    );
  }
  await this.terminal.table(
    ["ENVIRONMENT", "ENDPOINTS", "BUILD"],
    rows.map((row) => [row.name, String(row.endpoints), row.buildId ?? ""]),
  );
}

function fail(): never {
  throw noPlatform();
}
