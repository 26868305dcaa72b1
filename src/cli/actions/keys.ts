import { Administration } from "../../client/administration.ts";
import type { KeyRecord } from "../../client/records.ts";
import type { KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { type Connection, findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { dateTime } from "../format-time.ts";
import { checkName, detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope } from "../select-endpoints.ts";

interface CreateFlags {
  readonly scopes?: readonly KeyScope[];
  readonly expires?: number;
  readonly endpoint?: string;
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

const SCOPES_DEFAULT: readonly KeyScope[] = ["deploy", "invoke"];

/** The key alone goes to stdout: `KEY=$(svc key create ci)`. */
export async function createKey(this: CliContext, flags: CreateFlags, name: string): Promise<void> {
  const { connection, administration } = await administer(this);
  const { key, secret } = await administration.createKey({
    name,
    scopes: flags.scopes ?? SCOPES_DEFAULT,
    expiresInSeconds: flags.expires,
    ...(await boundTo(this, connection, flags)),
  });
  if (flags.json) return this.terminal.json({ ...key, secret });
  this.terminal.out(secret);
  this.terminal.note(`The key "${name}" may ${key.scopes.join(", ")} ${placeOfKey(key)}. It is shown only now.`);
}

export async function listKeys(this: CliContext, flags: { readonly json?: boolean }): Promise<void> {
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
      dateTime(key.createdAt),
      key.lastUsedAt === null ? "never" : dateTime(key.lastUsedAt),
      key.expiresAt === null ? "never" : dateTime(key.expiresAt),
    ]),
  );
}

/** `wanted` is an id, or a name or beginning of the key that only one has. */
export async function revokeKey(this: CliContext, flags: { readonly json?: boolean }, wanted: string): Promise<void> {
  const { administration } = await administer(this);
  const key = keyNamed(await administration.keys(), wanted);
  await administration.revokeKey(key.id);
  if (flags.json) return this.terminal.json({ id: key.id, name: key.name });
  this.terminal.out(`Revoked "${key.name}" (${key.prefix}…). It is refused from now on.`);
}

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

async function boundTo(context: CliContext, { controlPlane }: Connection, flags: CreateFlags) {
  if (flags.endpoint !== undefined) {
    const endpoints = inScope(await controlPlane.endpoints(), flags);
    return { endpointId: endpointNamed(endpoints, flags.endpoint, detectedApp(context.cwd)).id };
  }
  if (flags.env === undefined) {
    if (flags.app === undefined) return {};
    throw new SvcError("USAGE", "A key is bound to an environment, not to a whole app.", { help: "Add --env NAME." });
  }
  const app = flags.app === undefined ? detectedApp(context.cwd) : checkName(flags.app, "--app");
  return { app, environment: checkName(flags.env, "--env") };
}

function placeOfKey({ app, environment, endpoint }: KeyRecord): string {
  const place = app === null ? "" : `${app}/${environment}`;
  if (endpoint !== null) return [place, endpoint].filter((part) => part !== "").join("/");
  return place === "" ? "everything" : place;
}

async function administer(context: CliContext): Promise<{ connection: Connection; administration: Administration }> {
  const connection = await findPlatform(context);
  if (connection === undefined) throw noPlatform();
  return { connection, administration: new Administration(connection.controlPlane.platform) };
}
