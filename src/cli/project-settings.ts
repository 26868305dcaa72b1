import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { parse } from "dotenv";
import { SvcError } from "../domain/errors.ts";
import { isValidName, suggestName } from "../domain/names.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** A setting of the CLI with the place it came from, for messages. */
export interface Setting {
  readonly value: string;
  readonly source: "environment" | ".env";
}

export interface PlatformSettings {
  readonly url: Setting | undefined;
  readonly apiKey: Setting | undefined;
  /** The key that may go to this address: to one from .env only a key from .env. */
  apiKeyFor(url: Setting): Setting | undefined;
}

/** PLATFORM_URL and PLATFORM_API_KEY from the environment, else from the project's .env. Nothing else is read of it. */
export async function platformSettings(projectDir: string, env: Environment): Promise<PlatformSettings> {
  const dotenv = parse(await readFile(join(projectDir, ".env")).catch(() => ""));
  const read = (values: Environment, source: Setting["source"], name: string): Setting | undefined => {
    const value = values[name]?.trim();
    return value ? { value, source } : undefined;
  };
  const setting = (name: string) => read(env, "environment", name) ?? read(dotenv, ".env", name);
  const apiKey = setting("PLATFORM_API_KEY");
  return {
    url: setting("PLATFORM_URL"),
    apiKey,
    apiKeyFor: ({ source }) => (source === ".env" ? read(dotenv, ".env", "PLATFORM_API_KEY") : apiKey),
  };
}

/** The app of a directory: its own name, made valid. */
export function detectedApp(projectDir: string): string {
  return suggestName(basename(projectDir));
}

/** The app that was named, else this directory's. */
export function appOf(cwd: string, given: string | undefined): string {
  return given === undefined ? detectedApp(cwd) : checkName(given, "--app");
}

/** Throws INVALID_NAME naming the flag and the nearest valid name. */
export function checkName(name: string, flag: "--app" | "--env"): string {
  if (isValidName(name)) return name;
  throw new SvcError(
    "INVALID_NAME",
    `"${name}" cannot name an ${flag === "--app" ? "app" : "environment"}: use a-z, 0-9, "-" and "_", at most 63 of them.`,
    { where: flag, help: `Try ${flag} ${suggestName(name)}.` },
  );
}

/** "http://host:1/" → "http://host:1". Throws CONFIG_INVALID when it is no http address, or has a path. */
export function platformUrl(text: string, where: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new SvcError("CONFIG_INVALID", `"${text}" is not the address of a platform.`, {
      where,
      help: "Give it as http://HOST:PORT or https://HOST.",
    });
  }
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "") {
    throw new SvcError("CONFIG_INVALID", `"${text}" is the address of something below a platform.`, {
      where,
      help: `Give the platform's own address: ${url.origin}.`,
    });
  }
  return url.href.replace(/\/+$/, "");
}
