import { keyError } from "../../client/answer-error.ts";
import { SvcError } from "../../domain/errors.ts";
import { type Connection, findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";

/** Exit code 1 when the key is missing or refused, or the platform cannot be reached. */
export async function whoami(
  this: CliContext,
  flags: { readonly showKey?: boolean; readonly json?: boolean },
): Promise<void> {
  const { terminal } = this;
  const connection = await findPlatform(this);
  if (connection === undefined) throw noPlatform();
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
  terminal.out(`Platform  ${url} (${URL_SOURCES[urlSource]})`);
  terminal.out(`Key       ${prefix === null ? "none" : `${prefix} (${KEY_SOURCES[keySource!]})`}`);
  terminal.out(`Valid     ${problem === undefined ? "yes" : "no"}`);
  if (problem !== undefined) terminal.note(`${problem.message} ${problem.help ?? ""}`.trimEnd());
}

const URL_SOURCES = {
  PLATFORM_URL: "from PLATFORM_URL",
  login: "from svc login",
  embedded: "runs on this machine",
};

const KEY_SOURCES = {
  environment: "from PLATFORM_API_KEY",
  ".env": "from .env",
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
