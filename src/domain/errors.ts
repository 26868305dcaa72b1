/**
 * The one catalogue of errors. A code never changes its meaning; `error-help.ts` and `docs/reference/errors.md` describe each,
 * and a test keeps the lists equal. HTTP answers and CLI messages are both made from here.
 */

interface ErrorKind {
  /** HTTP status of the answer that carries it. */
  readonly status: number;
  readonly title: string;
}

export const ERROR_CATALOGUE = {
  BAD_INPUT: { status: 400, title: "The request cannot be understood" },
  MISSING_KEY: { status: 401, title: "No API key was given" },
  WRONG_KEY: { status: 401, title: "The API key is not valid" },
  WRONG_SIGNATURE: { status: 403, title: "The signed URL is not valid" },
  URL_EXPIRED: { status: 403, title: "The signed URL has expired" },
  FORBIDDEN: { status: 403, title: "The API key lacks this right" },
  NOT_FOUND: { status: 404, title: "Not found" },
  ENDPOINT_NOT_FOUND: { status: 404, title: "Endpoint not found" },
  JOB_NOT_FOUND: { status: 404, title: "Job not found" },
  WRONG_ENDPOINT_KIND: { status: 400, title: "This call does not fit the kind of endpoint" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  JOB_NOT_RETRYABLE: { status: 409, title: "Only a failed or timed-out job can be retried" },
  CONFLICT: { status: 409, title: "The current state does not allow this" },
  SOURCE_OUTDATED: { status: 409, title: "The endpoint runs other code than the caller has" },
  SLOW_REQUEST: { status: 408, title: "The request did not arrive in time" },
  TOO_LARGE: { status: 413, title: "The body is too large" },
  QUEUE_FULL: { status: 429, title: "The endpoint's queue is full" },
  BODIES_FULL: { status: 429, title: "The large bodies of the endpoint's jobs take all their room" },
  RATE_LIMITED: { status: 429, title: "Too many requests" },
  HEADERS_TOO_LARGE: { status: 431, title: "The request's headers are too large" },
  JOB_FAILED: { status: 500, title: "The function failed" },
  INTERNAL: { status: 500, title: "Internal error" },
  WORKER_LOST: { status: 502, title: "The worker was lost while it handled the request" },
  BAD_RESPONSE: { status: 502, title: "The function's response cannot be sent" },
  BOOT_FAILED: { status: 502, title: "The endpoint's worker cannot start" },
  SHUTTING_DOWN: { status: 503, title: "The platform is shutting down" },
  MOVED: { status: 503, title: "The endpoint's jobs are kept elsewhere now" },
  WORKER_WAIT_TIMEOUT: { status: 504, title: "No worker was ready in time" },
  REQUEST_TIMEOUT: { status: 504, title: "The worker did not answer in time" },

  QUOTA_EXCEEDED: { status: 400, title: "Worker quota exceeded" },
  WORKERS_NOT_ZERO: { status: 409, title: "The endpoint still has workers" },
  INVALID_NAME: { status: 400, title: "Invalid name" },
  INVALID_SETTING: { status: 400, title: "Invalid endpoint setting" },
  NO_CAPACITY: { status: 503, title: "This machine cannot run the endpoint" },
  ISOLATION_MISSING: { status: 503, title: "This machine cannot keep workers apart as asked" },
  STARTS_PAUSED: { status: 503, title: "Workers cannot be started at the moment" },
  LAYER_MISSING: { status: 409, title: "A layer of the build was not uploaded" },
  LAYER_CORRUPT: { status: 400, title: "The uploaded layer does not match its digest" },
  DATABASE_AWAY: { status: 503, title: "The platform's database cannot be reached" },
  DATABASE_REFUSED: { status: 500, title: "The platform's database cannot be used" },
  STORAGE_FULL: { status: 507, title: "The platform cannot store anything now" },
  VOLUMES_AWAY: { status: 503, title: "The disk of the volumes cannot be used" },
  BUCKET_AWAY: { status: 503, title: "The platform's bucket cannot be reached" },
  BUCKET_REFUSED: { status: 500, title: "The platform's bucket cannot be used" },

  NO_ENDPOINTS: { status: 400, title: "No Endpoint functions found" },
  BUILD_FAILED: { status: 400, title: "The build failed" },
  DEPENDENCIES_FAILED: { status: 400, title: "Dependencies could not be installed" },
  ARTIFACT_TOO_LARGE: { status: 413, title: "The artifact is too large" },
  MULTIPLE_ENVIRONMENTS: { status: 400, title: "Multiple environments found" },
  PLATFORM_UNREACHABLE: { status: 503, title: "The platform cannot be reached" },
  PLATFORM_START_FAILED: { status: 500, title: "The platform did not start" },
  PORT_IN_USE: { status: 500, title: "The port is in use" },
  DATA_DIRECTORY: { status: 500, title: "The data directory cannot be used" },
  ENGINE_UNREACHABLE: { status: 500, title: "The container engine cannot be used" },
  IMAGE_MISSING: { status: 500, title: "A container image cannot be used" },
  IMAGE_UNSUITABLE: { status: 400, title: "The container image does not fit" },
  TOOL_MISSING: { status: 500, title: "A required program is missing" },
  CONFIG_INVALID: { status: 500, title: "Invalid configuration" },
  FILES_EXIST: { status: 409, title: "Files already exist" },
  USAGE: { status: 400, title: "Wrong use of the command" },
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

interface SvcErrorOptions {
  /** What to do next: a sentence or a command. */
  readonly help?: string;
  /** Where it happened: `file:line:column`, a flag, a URL. */
  readonly where?: string;
  readonly cause?: unknown;
}

/** An error whose message may be shown to the user as it is. Anything else stops at the edge as INTERNAL. */
export class SvcError extends Error {
  readonly code: ErrorCode;
  readonly help: string | undefined;
  readonly where: string | undefined;

  constructor(code: ErrorCode, message: string, options: SvcErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.name = "SvcError";
    this.code = code;
    this.help = options.help;
    this.where = options.where;
  }

  get status(): number {
    return ERROR_CATALOGUE[this.code].status;
  }

  get title(): string {
    return ERROR_CATALOGUE[this.code].title;
  }
}

/** Another platform has the jobs by now, and does what is to be done about them. */
export function isMoved(error: unknown): boolean {
  return error instanceof SvcError && error.code === "MOVED";
}

/** The one error body of every HTTP answer, but for calls of endpoints that OpenAI clients make. */
export interface ErrorBody {
  readonly error: string;
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly code: ErrorCode;
}

/** Body and status for any thrown value; the details of an unknown error are not disclosed. */
export function errorBody(error: unknown): ErrorBody {
  const known = error instanceof SvcError ? error : new SvcError("INTERNAL", "Something failed inside the platform.");
  const detail = known.help ? `${known.message} ${known.help}` : known.message;
  return { error: detail, status: known.status, title: known.title, detail, code: known.code };
}

/** The error as OpenAI clients read it. */
export interface OpenAiError {
  readonly message: string;
  readonly type: string;
  readonly code: string;
}

/** The same body, its `error` in the form that OpenAI clients read. */
export function openAiErrorBody(error: unknown): Omit<ErrorBody, "error"> & { readonly error: OpenAiError } {
  const body = errorBody(error);
  return { ...body, error: { message: body.detail, type: openAiType(body.status), code: body.code } };
}

function openAiType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}
