import { text } from "node:stream/consumers";
import type { Place } from "../../client/administration.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, envFlag, type FlagsOf, group, jsonFlag } from "../command.ts";
import { administer } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { resolveTarget } from "../deploy/target.ts";
import { dateTime } from "../format.ts";

const flags = { app: appFlag, env: envFlag, json: jsonFlag };
const aliases = { a: "app", e: "env" } as const;
const parameters = [{ placeholder: "NAME", brief: "Name of the secret" }];

/** The value is asked for, or read from the standard input: in an argument it would stay in the shell's history. */
const setSecret = command({
  brief: "Make a secret, or give it a new value",
  text: 'Stores the value encrypted; it is never shown again. In the code: env={"HF_TOKEN": Secret("HF_TOKEN")}.',
  examples: [
    ["svc secret set HF_TOKEN", "Asks for the value"],
    ["svc secret set HF_TOKEN --env staging < token.txt", "Reads it from a file"],
  ],
  flags,
  aliases,
  parameters,
  async run(flags, name) {
    const { administration, place } = await atPlace(this, flags);
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
  },
});

const listSecrets = command({
  brief: "List the secrets of an environment",
  text: "Lists names and times. Values are never shown.",
  examples: [["svc secret list", "Names and times"]],
  flags,
  aliases,
  async run(flags) {
    const { administration, place } = await atPlace(this, flags);
    const secrets = await administration.secrets(place);
    if (flags.json) return this.terminal.json(secrets);
    if (secrets.length === 0) return this.terminal.note(`${shown(place)} has no secrets. Next: svc secret set NAME`);
    await this.terminal.table(
      ["SECRET", "MADE", "SET LAST"],
      secrets.map(({ name, createdAt, updatedAt }) => [name, dateTime(createdAt), dateTime(updatedAt)]),
    );
  },
});

const removeSecret = command({
  brief: "Remove a secret",
  text: "Refused while a deployed endpoint uses it.",
  examples: [["svc secret rm HF_TOKEN", "Remove it"]],
  flags,
  aliases,
  parameters,
  async run(flags, name) {
    const { administration, place } = await atPlace(this, flags);
    await administration.deleteSecret(place, name);
    if (flags.json) return this.terminal.json({ ...place, name });
    this.terminal.out(`Removed ${name} from ${shown(place)}.`);
  },
});

export const secretCommands = group("Secrets of an environment", {
  set: setSecret,
  list: listSecrets,
  rm: removeSecret,
});

async function atPlace(context: CliContext, given: FlagsOf<typeof flags>) {
  const { controlPlane, administration } = await administer(context);
  const { app, environment } = await resolveTarget(controlPlane, context.cwd, given);
  return { administration, place: { app, environment } };
}

function shown({ app, environment }: Place): string {
  return `${app}/${environment}`;
}
