import { hostname } from "node:os";
import { text } from "node:stream/consumers";
import { ControlPlane } from "../../client/control-plane.ts";
import { awaitKey, openLogin } from "../../client/device-login.ts";
import { SvcError } from "../../domain/errors.ts";
import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { Credentials } from "../credentials.ts";
import { configDir } from "../paths.ts";
import { platformUrl } from "../project-settings.ts";

interface LoginFlags {
  readonly apiKey?: string;
  readonly url?: string;
  readonly browser?: boolean;
}

/** What a machine needs for every command except those about keys. */
const SCOPES = ["deploy", "invoke"] as const;

/** Stores a key after the platform has accepted it. */
export async function login(this: CliContext, flags: LoginFlags): Promise<void> {
  const url = flags.url === undefined ? await usualPlatform(this) : platformUrl(flags.url, "--url");
  const apiKey = await keyOf(this, flags, url);
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

async function keyOf(context: CliContext, flags: LoginFlags, url: string): Promise<string> {
  if (flags.apiKey === undefined) {
    // --no-browser says that somebody reads the address, also where there is no terminal.
    if (context.terminal.interactive || flags.browser === false) return approvedKey(context, flags, url);
    throw new SvcError("USAGE", "svc login needs --api-key where nobody can be asked.", {
      help: "svc login --api-key KEY, or svc login --api-key - to read it from the standard input.",
    });
  }
  const key = flags.apiKey === "-" ? (await text(process.stdin)).trim() : flags.apiKey.trim();
  if (!key) throw new SvcError("USAGE", "No key was given.", { help: "svc login --api-key KEY" });
  return key;
}

/** A new key for this machine, once somebody has approved it on the platform's page. */
async function approvedKey({ terminal }: CliContext, { browser }: LoginFlags, url: string): Promise<string> {
  const opened = await openLogin(url, hostname(), SCOPES);
  terminal.note(`Approve this login at ${terminal.errColors.bold(opened.verification_uri_complete)}`);
  terminal.note(
    `The code is ${terminal.errColors.bold(opened.user_code)}. A key with the scope admin is needed there.`,
  );
  if (browser !== false) {
    const { default: open } = await import("open");
    // Without a browser the printed address is enough.
    await open(opened.verification_uri_complete).then(
      (child) => child.once("error", () => {}),
      () => {},
    );
  }
  const progress = await terminal.progress("Waiting for the approval");
  try {
    return await awaitKey(url, opened);
  } finally {
    progress.done();
  }
}
