/** The machine's side of a login by a second device (RFC 8628). */
import { setTimeout as delay } from "node:timers/promises";
import type { KeyScope } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { DEVICE_SLOW_DOWN_S } from "../domain/limits.ts";
import { answerError } from "./answer-error.ts";
import { fetchText } from "./request.ts";

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";

export interface OpenedLogin {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  /** Seconds. */
  readonly expires_in: number;
  readonly interval: number;
}

export async function openLogin(url: string, machine: string, scopes: readonly KeyScope[]): Promise<OpenedLogin> {
  const { status, text } = await post(url, "/device/code", { machine, scope: scopes.join(" ") });
  if (status !== 200) throw answerError(url, status, text);
  return JSON.parse(text) as OpenedLogin;
}

/** Resolves the new key once somebody approved. Throws FORBIDDEN when it was denied or nobody did in time. */
export async function awaitKey(url: string, login: OpenedLogin): Promise<string> {
  let intervalS = login.interval;
  for (;;) {
    await delay(intervalS * 1000);
    const fields = { grant_type: GRANT_TYPE, device_code: login.device_code };
    const { status, text } = await post(url, "/device/token", fields);
    const answer = JSON.parse(text) as { access_token?: string; error?: string };
    if (answer.access_token !== undefined) return answer.access_token;
    if (answer.error === "slow_down") intervalS += DEVICE_SLOW_DOWN_S;
    else if (answer.error === "access_denied") throw refused("The login was denied.");
    else if (answer.error === "expired_token") throw refused("Nobody approved the login in time.");
    else if (answer.error !== "authorization_pending") throw answerError(url, status, text);
  }
}

function refused(message: string): SvcError {
  return new SvcError("FORBIDDEN", message, { help: "Run svc login again, or give a key with svc login --api-key." });
}

function post(url: string, path: string, fields: Record<string, string>) {
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const body = new URLSearchParams(fields).toString();
  return fetchText({ url, apiKey: undefined }, url + path, { method: "POST", headers, body });
}
