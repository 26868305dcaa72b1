import { text } from "node:stream/consumers";
import { Administration, type Place } from "../../client/administration.ts";
import { SvcError } from "../../domain/errors.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { dateTime } from "../format-time.ts";

interface Flags {
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

/** The value is asked for, or read from the standard input: in an argument it would stay in the shell's history. */
export async function setSecret(this: CliContext, flags: Flags, name: string): Promise<void> {
  const { administration, place } = await administer(this, flags);
  const { terminal } = this;
  const value = terminal.interactive
    ? await terminal.secret(`Value of ${name} in ${shown(place)}`)
    : (await text(process.stdin)).replace(/\r?\n$/, "");
  if (!value) {
    throw new SvcError("USAGE", "No value was given.", {
      help: `svc secret set ${name} < FILE, or type it when asked.`,
    });
  }
  await administration.setSecret(place, name, value);
  if (flags.json) return terminal.json({ ...place, name });
  terminal.out(`Set ${name} in ${shown(place)}.`);
  terminal.note(`Use it in the code: env={"${name}": Secret("${name}")}. Running workers that have it are replaced.`);
}

export async function listSecrets(this: CliContext, flags: Flags): Promise<void> {
  const { administration, place } = await administer(this, flags);
  const secrets = await administration.secrets(place);
  if (flags.json) return this.terminal.json(secrets);
  if (secrets.length === 0) return this.terminal.note(`${shown(place)} has no secrets. Next: svc secret set NAME`);
  await this.terminal.table(
    ["SECRET", "MADE", "SET LAST"],
    secrets.map(({ name, createdAt, updatedAt }) => [name, dateTime(createdAt), dateTime(updatedAt)]),
  );
}

export async function removeSecret(this: CliContext, flags: Flags, name: string): Promise<void> {
  const { administration, place } = await administer(this, flags);
  await administration.deleteSecret(place, name);
  if (flags.json) return this.terminal.json({ ...place, name });
  this.terminal.out(`Removed ${name} from ${shown(place)}.`);
}

async function administer(
  context: CliContext,
  flags: Flags,
): Promise<{ administration: Administration; place: Place }> {
  const connection = await findPlatform(context);
  if (connection === undefined) throw noPlatform();
  const { app, environment } = await resolveTarget(connection.controlPlane, context.cwd, flags);
  return { administration: new Administration(connection.controlPlane.platform), place: { app, environment } };
}

function shown({ app, environment }: Place): string {
  return `${app}/${environment}`;
}
