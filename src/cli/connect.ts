/**
 * Which platform a command talks to, and with which key.
 *
 *   platform: PLATFORM_URL (environment, then .env) → stored login → the embedded one that runs → start it
 *   key:      PLATFORM_API_KEY (environment, then .env) → the key stored for that platform
 *
 * A platform that .env names gets a key from .env or one stored for it, never the environment's.
 */
import { Administration } from "../client/administration.ts";
import { keyError } from "../client/answer-error.ts";
import { ControlPlane } from "../client/control-plane.ts";
import { SvcError } from "../domain/errors.ts";
import type { CliContext } from "./context.ts";
import { Credentials } from "./credentials.ts";
import { configDir, dataDir } from "./paths.ts";
import { runningPlatform } from "./platform/record.ts";
import { type PlatformSettings, platformSettings, platformUrl } from "./project-settings.ts";

export interface Connection {
  readonly controlPlane: ControlPlane;
  readonly url: string;
  readonly urlSource: "PLATFORM_URL" | "login" | "embedded";
  /** PLATFORM_URL stands in the project's .env. */
  readonly urlInDotenv: boolean;
  readonly apiKey: string | undefined;
  /** Where the key came from; undefined without one. */
  readonly keySource: "environment" | ".env" | "stored" | undefined;
}

/** Starts the embedded platform when there is none; asks first on a terminal. */
export async function connect(context: CliContext): Promise<Connection> {
  const found = await findPlatform(context);
  if (found !== undefined) return found;
  const options = { dataDir: dataDir(context.env), anyFreePort: true };
  // Nobody is asked about a platform that could not start.
  const { platformConfig } = await import("./platform/configuration.ts");
  platformConfig(context, options);
  await agreeToStart(context);
  const { keyNote, startEmbedded } = await import("./platform/start.ts");
  const platform = await startEmbedded(context, options);
  if (platform.firstKey !== undefined) context.terminal.note(`API key ${platform.firstKey} ${keyNote(platform)}`);
  const started = await findPlatform(context);
  if (started === undefined)
    throw new SvcError("PLATFORM_START_FAILED", "The platform started and then stopped.", {
      help: "Read svc platform logs.",
    });
  return started;
}

/** As connect, for what is refused without a key. */
export async function connectWithKey(context: CliContext): Promise<Connection & { readonly apiKey: string }> {
  const connection = await connect(context);
  const { url, apiKey } = connection;
  if (apiKey === undefined) throw keyError({ url, apiKey });
  return { ...connection, apiKey };
}

/** For commands that need a platform and do not start one. */
export async function requirePlatform(context: CliContext): Promise<Connection> {
  const connection = await findPlatform(context);
  if (connection === undefined) throw noPlatform();
  return connection;
}

/** As requirePlatform, for environments, keys, secrets and builds. */
export async function administer(context: CliContext): Promise<Connection & { administration: Administration }> {
  const connection = await requirePlatform(context);
  return { ...connection, administration: new Administration(connection.controlPlane.platform) };
}

/** Names of the key's endpoints for a shell's Tab, sorted; rejects when there is no platform that answers within `maxMs`. */
export async function endpointNames(context: CliContext, maxMs: number): Promise<string[]> {
  const connection = await findPlatform(context);
  if (connection?.apiKey === undefined) return [];
  return [...new Set(await connection.controlPlane.endpointNames(AbortSignal.timeout(maxMs)))].sort();
}

/** For commands that only look: undefined when no platform is set and none runs. */
export async function findPlatform(context: CliContext): Promise<Connection | undefined> {
  const settings = await platformSettings(context.cwd, context.env);
  const credentials = new Credentials(configDir(context.env));
  const place = await locate(context, settings, credentials);
  if (place === undefined) return undefined;
  const { url, urlSource } = place;
  const given = urlSource === "PLATFORM_URL" ? settings.apiKeyFor(settings.url!) : settings.apiKey;
  const stored = given === undefined ? await storedKey(credentials, url, place.dataDir) : undefined;
  const apiKey = given?.value ?? stored;
  if (apiKey === undefined && settings.apiKey !== undefined) throw notPaired(url);
  const keySource = given?.source ?? (stored === undefined ? undefined : "stored");
  const urlInDotenv = settings.url?.source === ".env";
  return { controlPlane: new ControlPlane({ url, apiKey }), url, urlSource, urlInDotenv, apiKey, keySource };
}

/** A project from elsewhere must not collect the keys of the shells that it is opened in. */
function notPaired(url: string): SvcError {
  const message = `The key of the environment is not sent to ${url}: that address comes from this folder's .env.`;
  return new SvcError("CONFIG_INVALID", message, {
    where: "PLATFORM_URL in .env",
    help: "If you trust it, set PLATFORM_URL in the environment too, run svc login, or put PLATFORM_API_KEY into .env as well.",
  });
}

function noPlatform(): SvcError {
  return new SvcError("PLATFORM_UNREACHABLE", "No platform is set, and none runs on this machine.", {
    help: "Run svc platform start, or set PLATFORM_URL.",
  });
}

interface Place {
  readonly url: string;
  readonly urlSource: Connection["urlSource"];
  /** Of an embedded platform. */
  readonly dataDir?: string;
}

async function locate(
  context: CliContext,
  settings: PlatformSettings,
  credentials: Credentials,
): Promise<Place | undefined> {
  if (settings.url !== undefined) {
    const where = `PLATFORM_URL in ${settings.url.source === ".env" ? ".env" : "the environment"}`;
    return { url: platformUrl(settings.url.value, where), urlSource: "PLATFORM_URL" };
  }
  const login = await credentials.login();
  if (login !== undefined) return { url: login.url, urlSource: "login" };
  const directory = dataDir(context.env);
  const running = await runningPlatform(directory);
  return running && { url: running.url, urlSource: "embedded", dataDir: directory };
}

async function storedKey(credentials: Credentials, url: string, directory?: string): Promise<string | undefined> {
  const embedded = directory === undefined ? undefined : await credentials.embeddedKey(directory);
  return embedded ?? credentials.keyFor(url);
}

async function agreeToStart({ terminal }: CliContext): Promise<void> {
  if (!terminal.interactive) return;
  const agreed = await terminal.confirm("No platform is set. Start one on this machine?", true);
  if (!agreed) throw noPlatform();
}
