import type { KeyRecord } from "../../client/records.ts";
import { KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, duration, envFlag, type FlagsOf, group, jsonFlag, valueFlag } from "../command.ts";
import { administer, type Connection } from "../connect.ts";
import { date, formatAge } from "../format.ts";
import { appOf, checkName, detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

const SCOPES_DEFAULT: readonly KeyScope[] = ["deploy", "invoke"];

const createFlags = {
  scopes: valueFlag("LIST", `What it may do, of ${KEY_SCOPES.join(",")}; default: ${SCOPES_DEFAULT.join(",")}`, scopes),
  expires: valueFlag("TIME", "How long it is valid: 30d, 12h, 90m; default: until it is revoked", duration),
  endpoint: valueFlag("NAME", "Only for this endpoint"),
  app: { ...appFlag, brief: "App of --env; default: the name of this directory" },
  env: { ...envFlag, brief: "Only for this environment" },
  json: jsonFlag,
};

/** The key alone goes to stdout: `KEY=$(svc key create ci)`. */
const createKey = command({
  brief: "Make an API key",
  text: "Prints the new key, once. Needs a key with the scope admin.",
  examples: [
    ["svc key create ci --scopes deploy --env staging", "May deploy to one environment"],
    ["svc key create website --scopes invoke --endpoint hello", "May call one endpoint"],
    ["svc key create guest --scopes read --expires 7d", "May look, for a week"],
  ],
  flags: createFlags,
  aliases: { a: "app", e: "env" },
  parameters: [{ placeholder: "NAME", brief: "Name of the key" }],
  async run(flags, name) {
    const { controlPlane, administration } = await administer(this);
    const { key, secret } = await administration.createKey({
      name,
      scopes: flags.scopes ?? SCOPES_DEFAULT,
      expiresInSeconds: flags.expires,
      ...(await boundTo(this.cwd, controlPlane, flags)),
    });
    if (flags.json) return this.terminal.json({ ...key, secret });
    this.terminal.out(secret);
    this.terminal.note(`The key "${name}" may ${key.scopes.join(", ")} ${placeOfKey(key)}. It is shown only now.`);
  },
});

const listKeys = command({
  brief: "List the API keys",
  text: "Lists every key with its rights and its last use. Keys themselves are not shown.",
  examples: [["svc key list", "Every key"]],
  flags: { json: jsonFlag },
  async run(flags) {
    const { administration } = await administer(this);
    const keys = await administration.keys();
    if (flags.json) return this.terminal.json(keys);
    await this.terminal.table(
      ["ID", "NAME", "KEY", "SCOPES", "REACHES", "MADE", "USED LAST", "EXPIRES"],
      keys.map((key) => [
        key.id,
        key.name,
        `${key.prefix}…`,
        key.scopes.join(", "),
        placeOfKey(key),
        date(key.createdAt),
        key.lastUsedAt === null ? "never" : `${formatAge(Date.now() - key.lastUsedAt)} ago`,
        key.expiresAt === null ? "never" : date(key.expiresAt),
      ]),
      ["MADE", "USED LAST", "EXPIRES"],
    );
  },
});

const revokeKey = command({
  brief: "Revoke an API key",
  text: "The key is refused from that moment. The last admin key is kept.",
  examples: [["svc key revoke ci", "By its name"]],
  flags: { json: jsonFlag },
  parameters: [{ placeholder: "KEY", brief: "Its id or name" }],
  async run(flags, wanted) {
    const { administration } = await administer(this);
    const key = keyNamed(await administration.keys(), wanted);
    await administration.revokeKey(key.id);
    if (flags.json) return this.terminal.json({ id: key.id, name: key.name });
    this.terminal.out(`Revoked "${key.name}" (${key.prefix}…). It is refused from now on.`);
  },
});

export const keyCommands = group("API keys of the platform", { create: createKey, list: listKeys, revoke: revokeKey });

/** `wanted` is an id, or a name or beginning of the key that only one has. */
function keyNamed(keys: readonly KeyRecord[], wanted: string): KeyRecord {
  const exact = keys.find(({ id }) => id === wanted);
  const matches = keys.filter(
    ({ name, prefix }) => name === wanted || (wanted.length >= 8 && wanted.startsWith(prefix)),
  );
  if (exact !== undefined) return exact;
  if (matches.length === 1) return matches[0]!;
  if (matches.length === 0) {
    throw new SvcError("NOT_FOUND", "There is no such key.", { help: "svc key list shows every key with its id." });
  }
  throw new SvcError("USAGE", `Several keys fit: ${matches.map(({ id }) => id).join(", ")}.`, { help: "Give the id." });
}

async function boundTo(cwd: string, controlPlane: Connection["controlPlane"], flags: FlagsOf<typeof createFlags>) {
  if (flags.endpoint !== undefined) {
    const endpoints = inScope(await controlPlane.endpoints(), flags);
    return { endpointId: endpointNamed(endpoints, flags.endpoint, detectedApp(cwd)).id };
  }
  if (flags.env === undefined) {
    if (flags.app === undefined) return {};
    throw new SvcError("USAGE", "A key is bound to an environment, not to a whole app.", { help: "Add --env NAME." });
  }
  const app = appOf(cwd, flags.app);
  return { app, environment: checkName(flags.env, "--env") };
}

function placeOfKey({ app, environment, endpoint }: KeyRecord): string {
  const place = app === null ? "" : `${app}/${environment}`;
  if (endpoint !== null) return [place, endpoint].filter((part) => part !== "").join("/");
  return place === "" ? "everything" : place;
}

function scopes(text: string): KeyScope[] {
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !(KEY_SCOPES as readonly string[]).includes(name));
  if (unknown.length > 0) throw new Error(`a list of ${KEY_SCOPES.join(", ")} is needed, separated by commas`);
  return names as KeyScope[];
}
