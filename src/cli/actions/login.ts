import { text } from "node:stream/consumers";
import { ControlPlane } from "../../client/control-plane.ts";
import { SvcError } from "../../domain/errors.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { Credentials } from "../credentials.ts";
import { configDir } from "../paths.ts";
import { platformUrl } from "../project-settings.ts";

interface LoginFlags {
  readonly apiKey?: string;
  readonly url?: string;
}

/** Stores a key after the platform has accepted it. */
export async function login(this: CliContext, flags: LoginFlags): Promise<void> {
  const url = flags.url === undefined ? await usualPlatform(this) : platformUrl(flags.url, "--url");
  const apiKey = await givenKey(this, flags.apiKey, url);
  const account = await new ControlPlane({ url, apiKey }).account();
  const credentials = new Credentials(configDir(this.env));
  await credentials.saveLogin({ url, apiKey });
  this.terminal.out(`Logged in to ${url} (svc ${account.version}).`);
  this.terminal.note(`The key is stored in ${credentials.path}. Next: svc deploy`);
  if (this.env.PLATFORM_API_KEY) this.terminal.warn("PLATFORM_API_KEY is set and is used instead of the stored key.");
}

export async function logout(this: CliContext): Promise<void> {
  const removed = await new Credentials(configDir(this.env)).removeLogin();
  this.terminal.out(removed ? "Logged out. The key itself stays valid." : "You were not logged in.");
}

async function usualPlatform(context: CliContext): Promise<string> {
  const found = await findPlatform(context);
  if (found === undefined) throw noPlatform();
  return found.url;
}

async function givenKey(context: CliContext, flag: string | undefined, url: string): Promise<string> {
  const { terminal } = context;
  if (flag === undefined && !terminal.interactive) {
    throw new SvcError("USAGE", "svc login needs --api-key where nobody can be asked.", {
      help: "svc login --api-key KEY, or svc login --api-key - to read it from the standard input.",
    });
  }
  const key =
    flag === "-" ? (await text(process.stdin)).trim() : (flag?.trim() ?? (await terminal.secret(`API key for ${url}`)));
  if (!key) throw new SvcError("USAGE", "No key was given.", { help: "svc login --api-key KEY" });
  return key;
}
