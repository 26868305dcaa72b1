/** What can go wrong when a platform is asked, as SvcErrors. Nothing here needs Node: browsers load it too. */
import { ERROR_CATALOGUE, type ErrorCode, SvcError } from "../domain/errors.ts";

/** Where a platform is and the key to use there. */
export interface Platform {
  /** Without a slash at the end. */
  readonly url: string;
  readonly apiKey: string | undefined;
}

/** The SvcError of an answer with the one error body; anything else is described by its status. */
export function answerError(url: string, status: number, text: string): SvcError {
  const body = parsed<{ detail?: string; error?: string; code?: string }>(text);
  if (body?.code !== undefined) return new SvcError(knownCode(body.code), body.detail ?? body.error ?? text);
  return new SvcError("INTERNAL", `${url} answered ${status}, not as a svc platform does.`, {
    help: "Check PLATFORM_URL, or read svc platform logs.",
  });
}

export function keyError(platform: Platform): SvcError {
  const help = "Set PLATFORM_API_KEY or run svc login.";
  if (platform.apiKey === undefined) {
    return new SvcError("MISSING_KEY", `No API key is known for ${platform.url}.`, { help });
  }
  return new SvcError("WRONG_KEY", `The API key ${platform.apiKey.slice(0, 10)}… is not valid for ${platform.url}.`, {
    help,
  });
}

export function unreachable(url: string, cause: unknown): SvcError {
  const reason = connectionReason(cause);
  return new SvcError("PLATFORM_UNREACHABLE", `The platform at ${url} cannot be reached (${reason}).`, {
    help: "Check PLATFORM_URL, or start one on this machine with svc platform start.",
    cause,
  });
}

/** Whether the platform may be back in a moment, as when it is started again. */
export function isAway(error: unknown): error is SvcError {
  return error instanceof SvcError && (error.code === "PLATFORM_UNREACHABLE" || error.code === "SHUTTING_DOWN");
}

function connectionReason(error: unknown): string {
  let root = error;
  while (root instanceof Error && root.cause instanceof Error) root = root.cause;
  const code = (root as { code?: string }).code ?? "";
  return CONNECTION_REASONS[code] ?? (root instanceof Error ? root.message : String(root));
}

const CONNECTION_REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "unknown host",
  ECONNRESET: "connection lost",
  EPIPE: "connection lost",
  UND_ERR_SOCKET: "connection lost",
  ETIMEDOUT: "no answer",
  UND_ERR_CONNECT_TIMEOUT: "no answer",
  UND_ERR_HEADERS_TIMEOUT: "no answer",
};

export function knownCode(code: string | undefined): ErrorCode {
  return code !== undefined && code in ERROR_CATALOGUE ? (code as ErrorCode) : "INTERNAL";
}

export function parsed<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}
