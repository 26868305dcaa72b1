/** `svc app` and `svc env`. */
import type { EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { nearest } from "../../domain/names.ts";
import { appFlag, command, group, jsonFlag, switchFlag } from "../command.ts";
import { administer, requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { appOf, checkName } from "../project-settings.ts";
import { inScope } from "../select-endpoints.ts";

const environment = { placeholder: "ENVIRONMENT", brief: "Name of the environment" };
const force = switchFlag("Do not ask");

const listApps = command({
  brief: "List the apps of the platform",
  text: "Lists every app with its environments.",
  examples: [
    ["svc app list", "Every app"],
    ["svc app list --json", "The same for programs"],
  ],
  flags: { json: jsonFlag },
  async run(flags) {
    const connection = await requirePlatform(this);
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
  },
});

const deleteApp = command({
  brief: "Delete an app",
  text: "Deletes the app with its environments and endpoints. Running work is finished first.",
  examples: [["svc app delete shop", "With all its environments"]],
  flags: { force, json: jsonFlag },
  aliases: { f: "force" },
  parameters: [{ placeholder: "APP", brief: "Name of the app" }],
  async run(flags, name) {
    const { administration, controlPlane } = await administer(this);
    const endpoints = inScope(await controlPlane.endpoints(), { app: name });
    if (!(await agreed(this, `the app ${name} with all its environments`, endpoints, flags))) return;
    const removed = await administration.deleteApp(name);
    if (flags.json) return this.terminal.json({ app: name, removed });
    this.terminal.out(`Deleted ${name}.${finishing(removed)}`);
  },
});

export const appCommands = group("Apps of the platform", { list: listApps, delete: deleteApp });

const listEnvironments = command({
  brief: "List the environments of an app",
  text: "Lists the environments of an app and how many endpoints each has.",
  examples: [
    ["svc env list", "Environments of this directory's app"],
    ["svc env list --app shop --json", "Of a named app, for programs"],
  ],
  flags: { app: appFlag, json: jsonFlag },
  aliases: { a: "app" },
  async run(flags) {
    const connection = await requirePlatform(this);
    const name = appOf(this.cwd, flags.app);
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
  },
});

const createEnvironment = command({
  brief: "Make an environment",
  text: "Makes an empty environment, and the app when it is missing. svc deploy does it too.",
  examples: [["svc env create staging", "In this directory's app"]],
  flags: { app: appFlag, json: jsonFlag },
  aliases: { a: "app" },
  parameters: [environment],
  async run(flags, name) {
    const { administration } = await administer(this);
    const app = appOf(this.cwd, flags.app);
    await administration.createEnvironment({ app, environment: checkName(name, "--env") });
    if (flags.json) return this.terminal.json({ app, environment: name });
    this.terminal.out(`Made ${app}/${name}. Next: svc deploy --env ${name}`);
  },
});

const deleteEnvironment = command({
  brief: "Delete an environment",
  text: "Deletes the environment with its endpoints, builds, secrets and keys. Running work is finished first.",
  examples: [["svc env delete staging", "Of this directory's app"]],
  flags: { app: appFlag, force, json: jsonFlag },
  aliases: { a: "app", f: "force" },
  parameters: [environment],
  async run(flags, name) {
    const { administration, controlPlane } = await administer(this);
    const app = appOf(this.cwd, flags.app);
    const endpoints = inScope(await controlPlane.endpoints(), { app, env: name });
    if (!(await agreed(this, `the environment ${app}/${name}`, endpoints, flags))) return;
    const removed = await administration.deleteEnvironment({ app, environment: name });
    if (flags.json) return this.terminal.json({ app, environment: name, removed });
    this.terminal.out(`Deleted ${app}/${name}.${finishing(removed)}`);
  },
});

export const environmentCommands = group("Environments of an app", {
  list: listEnvironments,
  create: createEnvironment,
  delete: deleteEnvironment,
});

function finishing(removed: readonly string[]): string {
  return removed.length === 0
    ? ""
    : ` Its endpoints take no more calls and finish what they run: ${removed.join(", ")}.`;
}

/** Asks before endpoints, builds and secrets go; what is empty goes without a question. */
async function agreed(
  { terminal }: CliContext,
  what: string,
  endpoints: readonly EndpointRecord[],
  { force }: { readonly force?: boolean },
): Promise<boolean> {
  if (force || endpoints.length === 0) return true;
  const names = endpoints.map((endpoint) => `${endpoint.environment}/${endpoint.name}`);
  terminal.note(`To be deleted: ${what}, with ${names.join(", ")}.`);
  if (!terminal.interactive) {
    throw new SvcError("USAGE", "This deletes endpoints, and nobody can be asked here.", {
      help: "Add --force to delete them without a question.",
    });
  }
  if (await terminal.confirm("Delete?", false)) return true;
  terminal.note("Nothing was deleted.");
  return false;
}
