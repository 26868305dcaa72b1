import { Administration } from "../../client/administration.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { type Connection, findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { checkName, detectedApp } from "../project-settings.ts";
import { inScope } from "../select-endpoints.ts";

interface Flags {
  readonly app?: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export async function createEnvironment(
  this: CliContext,
  flags: Pick<Flags, "app" | "json">,
  name: string,
): Promise<void> {
  const { administration } = await administer(this);
  const app = appOf(this, flags);
  await administration.createEnvironment({ app, environment: checkName(name, "--env") });
  if (flags.json) return this.terminal.json({ app, environment: name });
  this.terminal.out(`Made ${app}/${name}. Next: svc deploy --env ${name}`);
}

export async function deleteEnvironment(this: CliContext, flags: Flags, name: string): Promise<void> {
  const { administration, connection } = await administer(this);
  const app = appOf(this, flags);
  const endpoints = inScope(await connection.controlPlane.endpoints(), { app, env: name });
  if (!(await agreed(this, `the environment ${app}/${name}`, endpoints, flags))) return;
  const removed = await administration.deleteEnvironment({ app, environment: name });
  if (flags.json) return this.terminal.json({ app, environment: name, removed });
  this.terminal.out(`Deleted ${app}/${name}.${finishing(removed)}`);
}

export async function deleteApp(this: CliContext, flags: Omit<Flags, "app">, name: string): Promise<void> {
  const { administration, connection } = await administer(this);
  const endpoints = inScope(await connection.controlPlane.endpoints(), { app: name });
  if (!(await agreed(this, `the app ${name} with all its environments`, endpoints, flags))) return;
  const removed = await administration.deleteApp(name);
  if (flags.json) return this.terminal.json({ app: name, removed });
  this.terminal.out(`Deleted ${name}.${finishing(removed)}`);
}

function finishing(removed: readonly string[]): string {
  return removed.length === 0
    ? ""
    : ` Its endpoints take no more calls and finish what they run: ${removed.join(", ")}.`;
}

async function administer(context: CliContext): Promise<{ administration: Administration; connection: Connection }> {
  const connection = await findPlatform(context);
  if (connection === undefined) throw noPlatform();
  return { connection, administration: new Administration(connection.controlPlane.platform) };
}

function appOf({ cwd }: CliContext, { app }: Flags): string {
  return app === undefined ? detectedApp(cwd) : checkName(app, "--app");
}

/** Asks before endpoints, builds and secrets go; what is empty goes without a question. */
async function agreed(
  { terminal }: CliContext,
  what: string,
  endpoints: readonly EndpointRecord[],
  { force }: Flags,
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
