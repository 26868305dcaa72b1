/** Of each error why it comes and what to do: what `svc help CODE` says, and the table of docs/reference/errors.md. */
import type { ErrorCode } from "./errors.ts";

interface ErrorHelp {
  readonly cause: string;
  readonly remedy: string;
}

/** Texts are Markdown; links lead from docs/reference. */
export const ERROR_HELP: Readonly<Record<ErrorCode, ErrorHelp>> = {
  BAD_INPUT: {
    cause: "The request is not valid HTTP or JSON, or a value is of the wrong kind or out of bounds.",
    remedy: "The detail names every fault and its place; correct them all.",
  },
  MISSING_KEY: {
    cause: "The request carries no API key.",
    remedy: "Send `Authorization: Bearer <API key>`; on the command line run `svc login` or set `PLATFORM_API_KEY`.",
  },
  WRONG_KEY: { cause: "The key is unknown, revoked or expired.", remedy: "Use another key, or run `svc login`." },
  WRONG_SIGNATURE: {
    cause:
      "A [signed URL](load-balanced.md#signed-urls) was changed, is used for another call, or its key was revoked.",
    remedy: "Ask for a new one.",
  },
  URL_EXPIRED: { cause: "The time of a signed URL is over.", remedy: "Ask for a new one." },
  FORBIDDEN: {
    cause: "The key is valid but lacks the scope, or a worker's token reaches for another environment.",
    remedy: "Use a key with the scope the detail names.",
  },
  NOT_FOUND: { cause: "There is no such route or thing.", remedy: "The detail lists what there is." },
  ENDPOINT_NOT_FOUND: { cause: "No endpoint has this id or name.", remedy: "`svc undeploy list` shows the endpoints." },
  JOB_NOT_FOUND: {
    cause: "The endpoint has no such job, or its result was kept long enough.",
    remedy: "Read results in time, or use a webhook.",
  },
  WRONG_ENDPOINT_KIND: {
    cause: "A job route of a load-balanced endpoint was called, or the reverse.",
    remedy: "The detail gives the right URL.",
  },
  METHOD_NOT_ALLOWED: { cause: "The route takes other methods.", remedy: "The `Allow` header lists them." },
  SOURCE_OUTDATED: {
    cause: "`X-Svc-Source` names another source layer than the endpoint runs.",
    remedy: "`svc run` sends its code and calls again by itself; others leave the header out.",
  },
  SLOW_REQUEST: {
    cause: "Headers or body did not arrive in time.",
    remedy: "Send faster, or check the network between.",
  },
  JOB_NOT_RETRYABLE: { cause: "Only FAILED and TIMED_OUT jobs can be retried.", remedy: "Submit a new job." },
  CONFLICT: {
    cause: "The thing changed meanwhile, or its state does not allow the call.",
    remedy: "Look at its state and try again.",
  },
  TOO_LARGE: {
    cause: "The body is larger than the route takes.",
    remedy: "Pass a link to the data instead of the data.",
  },
  QUEUE_FULL: {
    cause: "As many jobs of the endpoint wait as `SVC_QUEUE_LIMIT` allows.",
    remedy: "Wait for the seconds in `Retry-After`; raise `workers` or the limit.",
  },
  BODIES_FULL: {
    cause:
      "Inputs, outputs and errors above 64 KiB of the endpoint's jobs take all of `SVC_BODIES_LIMIT_MB`. A job whose result does not fit is FAILED with this text.",
    remedy: "Wait until results have outlived their retention; pass links to large data; raise the limit.",
  },
  RATE_LIMITED: {
    cause:
      "The calls of this window are used up, too many large bodies arrive at once, or too many large answers are on their way to slow callers.",
    remedy: "Wait for the seconds in `Retry-After`.",
  },
  HEADERS_TOO_LARGE: {
    cause: "The request's headers are larger than 16 KiB.",
    remedy: "Send less in headers and cookies.",
  },
  JOB_FAILED: {
    cause: "The function raised, for a caller that is told no job: an [OpenAI client](openai.md#errors).",
    remedy: "The message is the exception's; `svc logs --job` with the `X-Request-Id` has the traceback.",
  },
  INTERNAL: { cause: "A fault of the platform.", remedy: "`svc platform logs` has the details; report it." },
  WORKER_LOST: {
    cause: "The worker died while it handled the request.",
    remedy: "Look at its log with `svc logs`; try again.",
  },
  BAD_RESPONSE: {
    cause: "The function's status, headers or size cannot be sent.",
    remedy: "The detail names the fault; change the function, or stream a large response.",
  },
  BOOT_FAILED: {
    cause: "The worker cannot load the function.",
    remedy: "The detail has the import error; correct it and deploy.",
  },
  SHUTTING_DOWN: { cause: "The platform stops or restarts.", remedy: "Try again in a moment; accepted jobs are kept." },
  MOVED: {
    cause: "Another replica of the platform took over the jobs of the endpoint while the call was under way.",
    remedy: "Try again in a moment; accepted jobs are kept.",
  },
  WORKER_WAIT_TIMEOUT: {
    cause: "No worker was ready within the request time-out.",
    remedy: "The detail says what it waited for; try again, or raise `workers`.",
  },
  REQUEST_TIMEOUT: {
    cause: "The function did not answer in time.",
    remedy: "Make it faster, raise the time-out, or use a queue-based endpoint.",
  },
  QUOTA_EXCEEDED: {
    cause: "The maximum workers of all endpoints together exceed the quota.",
    remedy: "Reduce `workers`, or remove endpoints that are not used.",
  },
  WORKERS_NOT_ZERO: {
    cause: "An endpoint with minimum or maximum workers above zero cannot be deleted.",
    remedy: "Set both to 0 first; `svc undeploy` does it.",
  },
  INVALID_NAME: { cause: "A name does not match `[a-z0-9][a-z0-9_-]{0,62}`.", remedy: "Use the suggested name." },
  INVALID_SETTING: {
    cause: "Settings of an endpoint are out of bounds or contradict each other.",
    remedy: "The detail names every one of them.",
  },
  NO_CAPACITY: {
    cause: "No machine of the platform can run such a worker.",
    remedy: "Choose a smaller machine type, or a GPU the platform has.",
  },
  ISOLATION_MISSING: {
    cause: "`SVC_ISOLATION=strict`, and the machine has no namespaces, Landlock or seccomp for workers.",
    remedy: "The platform does not start: provide what it names (isolation.md), or set `SVC_ISOLATION=standard`.",
  },
  STARTS_PAUSED: {
    cause: "The process that starts workers ended and is being replaced, or the machine cannot make a process.",
    remedy: "It is tried again by itself; accepted jobs wait. `svc platform logs` says more.",
  },
  LAYER_MISSING: {
    cause: "A layer of the build was not uploaded before the deploy.",
    remedy: "Run `svc deploy` again.",
  },
  LAYER_CORRUPT: {
    cause: "The bytes of an uploaded layer do not match their digest.",
    remedy: "Run `svc deploy` again.",
  },
  DATABASE_AWAY: {
    cause: "PostgreSQL is not there, starts, fails over or has no connection free.",
    remedy: "The platform goes on by itself when it is back. Then call again.",
  },
  DATABASE_REFUSED: {
    cause: "PostgreSQL does not let the platform in, lacks a right or a table, or is too old.",
    remedy: "The message names what to change there or in `SVC_DATABASE_URL`.",
  },
  STORAGE_FULL: {
    cause:
      "The platform's disk or its database is full, the disk cannot be written (read-only, broken, over a quota), or the platform may open no further file. Nothing new is accepted; reads and running jobs go on, and their results are stored when there is room. Of a layer, what had arrived is removed.",
    remedy:
      "Make room on the disk of the platform's data directory, or of its database, or see what the system's log says of the disk; it goes on by itself. Then call again.",
  },
  VOLUMES_AWAY: {
    cause:
      "The disk that volumes are kept on does not answer, as one of another machine whose network is cut, cannot be used, or is not mounted. Workers with volumes do not start meanwhile; others go on.",
    remedy: "Look after that disk, or mount it; it goes on by itself when it is back. Then try again.",
  },
  BUCKET_AWAY: {
    cause:
      "The bucket that layers and large bodies are kept in does not answer, or asks for fewer requests. What needs neither goes on.",
    remedy: "Try again when it is back: an upload goes on from what had arrived.",
  },
  BUCKET_REFUSED: {
    cause:
      "The bucket that layers and large bodies are kept in is not there, is in another region, or does not let the platform in.",
    remedy: "The message names what to change there, or in the settings `SVC_S3_…`.",
  },
  NO_ENDPOINTS: {
    cause: "The project declares no `Endpoint`.",
    remedy: "Decorate a function with `Endpoint(...)`; check `.svcignore`.",
  },
  BUILD_FAILED: {
    cause: "Declarations cannot be understood or contradict each other.",
    remedy: "Each fault is shown with its file and line.",
  },
  DEPENDENCIES_FAILED: {
    cause: "The package installer could not install the dependencies.",
    remedy: "Its message names the package; check name, version and network.",
  },
  ARTIFACT_TOO_LARGE: {
    cause: "The artifact exceeds 1.5 GB.",
    remedy: "Leave packages out with `--exclude`, or files with `.svcignore`.",
  },
  MULTIPLE_ENVIRONMENTS: { cause: "The app has several environments and none was chosen.", remedy: "Give `--env`." },
  PLATFORM_UNREACHABLE: {
    cause: "No platform answers at the configured URL.",
    remedy: "Check `PLATFORM_URL`, or run `svc platform start`.",
  },
  PLATFORM_START_FAILED: { cause: "The embedded platform did not start.", remedy: "`svc platform logs` says why." },
  PORT_IN_USE: {
    cause: "Another program listens on the port.",
    remedy: "Stop it, or set `SVC_PORT` (`--port` of `svc run`).",
  },
  DATA_DIRECTORY: {
    cause: "The data directory cannot be created, read or written, or another platform uses it.",
    remedy: "Correct its permissions, or set `SVC_DATA_DIR`.",
  },
  ENGINE_UNREACHABLE: {
    cause: "Docker is not installed, not running, not allowed for this user, or on another machine.",
    remedy: "The message says which, and what to do.",
  },
  IMAGE_MISSING: {
    cause: "A container image is not on this machine, or is for another architecture.",
    remedy: "`svc platform images build` for the base images; `docker pull` or `docker build` for one of your own.",
  },
  IMAGE_UNSUITABLE: {
    cause:
      "A container image is for another architecture, has no fitting Python, or lacks a package that the endpoint lists.",
    remedy: "The message says what; build or choose another image.",
  },
  TOOL_MISSING: { cause: "A program that is needed is not installed.", remedy: "Install it; the message names it." },
  CONFIG_INVALID: {
    cause: "Configuration variables have wrong values.",
    remedy: "The message names every one of them; see [config.md](config.md).",
  },
  FILES_EXIST: { cause: "Files would be overwritten.", remedy: "Answer yes, or give `--force`." },
  USAGE: { cause: "The command was called with wrong arguments.", remedy: "Run it with `--help`." },
};
