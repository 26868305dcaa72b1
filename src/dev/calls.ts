/**
 * One local call from its arrival to its answer:
 *
 *   newest code ─▶ route ─▶ guard ─▶ live endpoint with that code ─▶ pass ──outdated, gone──▶ deploy, pass again
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { LayersBuild } from "../build/build-layers.ts";
import { errorBody, SvcError } from "../domain/errors.ts";
import { CONNECTION_END_MAX_MS } from "../domain/limits.ts";
import { plainAnswer } from "../lib/proxy.ts";
import type { CallLogs } from "./call-logs.ts";
import type { ShownCall } from "./call-view.ts";
import type { ProjectCode } from "./code.ts";
import { refusalOf } from "./guard.ts";
import { type LocalRoute, localRoutes } from "./local-routes.ts";
import { type Outgoing, type PassThrough, shortBody } from "./pass-through.ts";
import type { PlatformWatch } from "./platform-watch.ts";
import type { LiveEndpoint, Provisioner } from "./provisioner.ts";
import { type Destination, findDestination, pathsNear } from "./router.ts";

const TRIES_MAX = 3;

interface CallsDeps {
  readonly code: ProjectCode;
  readonly provisioner: Provisioner;
  readonly platform: PlatformWatch;
  readonly through: PassThrough;
  readonly host: string;
  /** The endpoint is in use: its log is followed before the call goes on. */
  readonly onUse: (name: string, live: LiveEndpoint) => Promise<void>;
  readonly show: (call: ShownCall) => void;
  /** Keeps what calls of the explorer print. */
  readonly logs: CallLogs;
}

interface Admitted {
  readonly build: LayersBuild;
  readonly destination: Destination;
  readonly query: string;
}

export class Calls {
  readonly #deps: CallsDeps;
  readonly #routes = new WeakMap<LayersBuild, readonly LocalRoute[]>();
  #stopping = false;

  constructor(deps: CallsDeps) {
    this.#deps = deps;
  }

  /** The server ends: calls that it still answers are shown as stopped, whatever breaks off first. */
  stop(): void {
    this.#stopping = true;
  }

  /** Answers the call, whatever happens; never rejects. */
  async answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const started = performance.now();
    const shown = { method: req.method ?? "GET", url: req.url ?? "/" };
    try {
      const admitted = await this.#admit(req, req.method ?? "GET");
      this.#deps.logs.begin(req.headers, admitted.destination.route.endpoint);
      const body = await shortBody(req);
      const passed = await this.#untilItRuns(admitted, async (outgoing) =>
        this.#deps.through.pass(req, res, { ...outgoing, body }),
      );
      const ms = performance.now() - started;
      if (passed.outcome !== "answered") {
        if (this.#stopping) this.#showStopped(shown, started);
        return;
      }
      const timing = passed.headers["server-timing"];
      const { status } = passed;
      const job = jobIn(admitted, passed.body);
      this.#deps.logs.answered(req.headers, { job: job?.id, worker: passed.headers["x-svc-worker-id"]?.toString() });
      this.#deps.show({ ...shown, status, ms, timing: timing?.toString(), job });
    } catch (error) {
      if (this.#stopping) {
        res.destroy();
        return this.#showStopped(shown, started);
      }
      if (res.destroyed) return; // The caller left.
      const status = sendError(res, error);
      const ms = performance.now() - started;
      this.#deps.show({ ...shown, status, ms, timing: undefined, job: undefined, problem: problemOf(error) });
    }
  }

  /** The same for a WebSocket call. */
  async upgrade(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const started = performance.now();
    const shown = { method: "WEBSOCKET", url: req.url ?? "/", timing: undefined, job: undefined };
    socket.on("error", () => socket.destroy());
    let status: number;
    let problem: string | undefined;
    try {
      const admitted = await this.#admit(req, "WEBSOCKET");
      const passed = await this.#untilItRuns(admitted, (outgoing) =>
        this.#deps.through.upgrade(req, socket, head, outgoing),
      );
      status = passed.outcome === "answered" ? passed.status : 500;
    } catch (error) {
      if (this.#stopping) {
        socket.destroy();
        return this.#showStopped(shown, started);
      }
      status = sendError(plainAnswer(req, socket, CONNECTION_END_MAX_MS), error);
      problem = problemOf(error);
    }
    this.#deps.show({ ...shown, status, ms: performance.now() - started, problem });
  }

  #showStopped(call: Pick<ShownCall, "method" | "url">, started: number): void {
    const ms = performance.now() - started;
    this.#deps.show({ ...call, status: "stopped", ms, timing: undefined, job: undefined });
  }

  routesOf(build: LayersBuild): readonly LocalRoute[] {
    let routes = this.#routes.get(build);
    if (routes === undefined) {
      routes = localRoutes(build.scan.endpoints);
      this.#routes.set(build, routes);
    }
    return routes;
  }

  /** Throws FORBIDDEN for a page that may not call, NOT_FOUND for a path that leads nowhere. */
  async #admit(req: IncomingMessage, method: string): Promise<Admitted> {
    const { code, host } = this.#deps;
    const [path = "/", query = ""] = (req.url ?? "/").split(/\?(.*)/s, 2);
    refuse(req, host, "*");
    const build = await code.latest();
    const routes = this.routesOf(build);
    const destination = findDestination(routes, method, path);
    const cors = destination && build.manifest.resources[destination.route.endpoint]?.cors;
    refuse(req, host, cors ?? "");
    if (destination !== undefined) return { build, destination, query };
    throw new SvcError("NOT_FOUND", `There is no ${method} ${path.slice(0, 200)}.`, {
      help: `Try ${pathsNear(routes, path).join(", ")}; /docs lists all.`,
    });
  }

  /** Passes the call to the live endpoint until it runs the code it was meant for. */
  async #untilItRuns<T extends { readonly outcome: string }>(
    { build, destination, query }: Admitted,
    pass: (outgoing: Outgoing) => Promise<T>,
  ): Promise<T> {
    const { provisioner, platform, onUse } = this.#deps;
    const name = destination.route.endpoint;
    for (let left = TRIES_MAX; ; left--) {
      try {
        const live = await provisioner.ensure(build, name);
        await onUse(name, live);
        const endpoint = new URL(live.record.url);
        const path = pathBelow(endpoint.pathname, destination.path, query);
        const source = destination.runs ? live.source : undefined;
        const passed = await pass({
          endpoint,
          path,
          platform: platform.controlPlane.platform,
          source,
          body: undefined,
        });
        if (passed.outcome !== "outdated" && passed.outcome !== "gone") return passed;
      } catch (error) {
        if (error instanceof SvcError && error.code === "PLATFORM_UNREACHABLE") platform.lost();
        throw error;
      }
      provisioner.forget(name);
      if (left === 1) {
        throw new SvcError(
          "SOURCE_OUTDATED",
          `The endpoint "${name}" was changed by somebody else while it was called.`,
          {
            help: "Is another svc run open for this folder?",
          },
        );
      }
    }
  }
}

/** Throws FORBIDDEN. `cors` "*" checks the Host alone. */
function refuse(req: IncomingMessage, host: string, cors: string): void {
  const refusal = refusalOf({ method: req.method, url: req.url, headers: req.headers }, { host, cors });
  if (refusal !== undefined) throw new SvcError("FORBIDDEN", refusal.message, { help: refusal.help });
}

/** For the developer, who is the user here: a defect of this server is told with its stack. */
function problemOf(error: unknown): string {
  if (error instanceof SvcError) return [error.message, error.help ?? ""].join(" ").trim();
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** What an answer of a job route says about the job. */
function jobIn({ destination }: Admitted, body: Buffer) {
  if (destination.route.kind !== "queue" || body.length === 0) return undefined;
  try {
    const job = JSON.parse(body.toString("utf8")) as { id?: unknown; status?: unknown; error?: unknown };
    if (typeof job.status !== "string") return undefined;
    return {
      id: typeof job.id === "string" ? job.id : undefined,
      status: job.status,
      ...(typeof job.error === "string" ? { error: job.error } : {}),
    };
  } catch {
    return undefined;
  }
}

/** Resolves the status that was sent. */
export function sendError(res: ServerResponse, error: unknown): number {
  const body = errorBody(error);
  const text = JSON.stringify(body);
  if (res.headersSent || res.destroyed) res.destroy();
  else {
    res.writeHead(body.status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
    res.end(text);
  }
  return body.status;
}

/** What node:http takes as a path: no spaces, no control characters. */
const SENDABLE = /^[!-\u00ff]*$/;
/**
 * The path of a local call as it is passed on: as it came, below the endpoint's own. It is never resolved here, and one that
 * something on the way could resolve (`..`, also encoded or with backslashes) is refused: it would leave the endpoint, with
 * the developer's key.
 */
const SLASH = /\/|\\|%2f|%5c/i;
const DOT = /%2e/gi;

/** `base` is the endpoint's path, `path` what stands behind it, without the query. Throws BAD_INPUT. */
function pathBelow(base: string, path: string, query: string): string {
  const leaves = path.split(SLASH).some((part) => part.replace(DOT, ".") === "..");
  if (!leaves && path.startsWith("/") && SENDABLE.test(path) && SENDABLE.test(query)) {
    return `${base.replace(/\/+$/, "")}${path}${query === "" ? "" : `?${query}`}`;
  }
  throw new SvcError("BAD_INPUT", `The path ${JSON.stringify(path.slice(0, 200))} leads out of the endpoint.`, {
    help: 'Call the path itself, without ".." in it.',
  });
}
