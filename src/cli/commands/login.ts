/** `svc login`, `svc logout`, `svc whoami`. */
import { hostname } from "node:os";
import { text } from "node:stream/consumers";
import { keyError } from "../../client/answer-error.ts";
import { ControlPlane } from "../../client/control-plane.ts";
import { awaitKey, openLogin } from "../../client/device-login.ts";
import { SvcError } from "../../domain/errors.ts";
import { command, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { type Connection, requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { Credentials } from "../credentials.ts";
import { configDir } from "../paths.ts";
import { platformUrl } from "../project-settings.ts";

/** What a machine needs for every command except those about keys. */
const SCOPES = ["deploy", "invoke"] as const;

/** Stores a key after the platform has accepted it. */
export const loginCommand = command({
  brief: "Store an API key for a platform",
  text: "Gets a key for this machine, approved in a browser, and stores it in a file only you can read.",
  examples: [
    ["svc login --url https://svc.example.com", "Opens the approval page"],
    ["svc login --no-browser", "Prints its address, for a machine without a browser"],
    ["svc login --api-key - < key.txt", "Reads it from a file, for scripts"],
  ],
  flags: {
    apiKey: valueFlag(
      "KEY",
      'API key; "-" reads it from the standard input; default: asks for an approval in the browser',
    ),
    browser: { kind: "boolean", optional: true, brief: "Open the approval page in a browser", withNegated: true },
    url: valueFlag("URL", "Platform; default: PLATFORM_URL, or the one that runs on this machine"),
  },
  async run(flags) {
    const url = flags.url === undefined ? (await requirePlatform(this)).url : platformUrl(flags.url, "--url");
    const apiKey = await keyOf(this, flags, url);
    const account = await new ControlPlane({ url, apiKey }).account();
    const credentials = new Credentials(configDir(this.env));
    await credentials.saveLogin({ url, apiKey });
    this.terminal.out(`Logged in to ${url} (svc ${account.version}).`);
    this.terminal.note(`The key is stored in ${credentials.path}. Next: svc deploy`);
    if (this.env.PLATFORM_API_KEY) this.terminal.warn("PLATFORM_API_KEY is set and is used instead of the stored key.");
  },
});

export const logoutCommand = command({
  brief: "Forget the stored login",
  text: "Removes what svc login stored. The key itself stays valid.",
  examples: [["svc logout", "Forget the login"]],
  async run() {
    const removed = await new Credentials(configDir(this.env)).removeLogin();
    this.terminal.out(removed ? "Logged out. The key itself stays valid." : "You were not logged in.");
  },
});

/** Exit code 1 when the key is missing or refused, or the platform cannot be reached. */
export const whoamiCommand = command({
  brief: "Show which platform and key are used",
  text: "Shows the platform and the key that commands use, and where each comes from.",
  examples: [
    ["svc whoami", "Platform, key and whether it is valid"],
    ["export PLATFORM_API_KEY=$(svc whoami --show-key)", "Set the key for calls with curl"],
  ],
  flags: { showKey: switchFlag("Print the key and nothing else"), json: jsonFlag },
  async run(flags) {
    const { terminal } = this;
    const connection = await requirePlatform(this);
    const { url, urlSource, apiKey, keySource } = connection;
    if (flags.showKey) {
      if (apiKey === undefined) throw keyError({ url, apiKey });
      return terminal.out(apiKey);
    }
    const problem = await keyProblem(connection);
    if (problem !== undefined) this.answerNo();
    const prefix = apiKey === undefined ? null : `${apiKey.slice(0, 10)}…`;
    if (flags.json) {
      return terminal.json({ url, urlSource, key: prefix, keySource: keySource ?? null, valid: problem === undefined });
    }
    terminal.out(`Platform  ${url} (${connection.urlInDotenv ? "from PLATFORM_URL in .env" : URL_SOURCES[urlSource]})`);
    terminal.out(`Key       ${prefix === null ? "none" : `${prefix} (${KEY_SOURCES[keySource!]})`}`);
    terminal.out(`Valid     ${problem === undefined ? "yes" : "no"}`);
    if (problem !== undefined) terminal.note(`${problem.message} ${problem.help ?? ""}`.trimEnd());
  },
});

interface LoginFlags {
  readonly apiKey?: string;
  readonly browser?: boolean;
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

const URL_SOURCES = {
  PLATFORM_URL: "from PLATFORM_URL",
  login: "from svc login",
  embedded: "runs on this machine",
};

const KEY_SOURCES = {
  environment: "from PLATFORM_API_KEY",
  ".env": "from PLATFORM_API_KEY in .env",
  stored: "stored",
};

async function keyProblem({ controlPlane }: Connection): Promise<SvcError | undefined> {
  try {
    await controlPlane.account();
    return undefined;
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
}
