/**
 * Requests that only the owner answers, passed on as they came: the management API, the console, workers that pull their jobs. A caller's
 * connection has one of its own to the owner, which ends with it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { SvcError } from "../domain/errors.ts";
import { CONNECTION_END_MAX_MS } from "../domain/limits.ts";
import { endConnection } from "../lib/end-connection.ts";
import { Agent, request } from "../lib/http.ts";
import { framingOf, passedHeaders, sendBack } from "../lib/proxy.ts";
import { drain } from "./body.ts";
import type { GatewayLog } from "./context.ts";
import { sendError } from "./respond.ts";

/** Answered where the body is read. */
const EXPECT = new Set(["expect"]);

/** Two of them have no body, and what they do is done as well twice. */
const BARE = new Set(["GET", "HEAD"]);

export class PassOn {
  readonly #dial: (caller: Socket) => Socket | Promise<Socket>;
  readonly #log: GatewayLog;
  readonly #agents = new WeakMap<Socket, InstanceType<typeof Agent>>();

  /** `dial`: a connection to the owner that counts as the caller's. */
  constructor(dial: (caller: Socket) => Socket | Promise<Socket>, log: GatewayLog) {
    this.#dial = dial;
    this.#log = log;
  }

  readonly answer = (req: IncomingMessage, res: ServerResponse): void => {
    this.pass(req, res).catch((error) => {
      this.#log.error("a request was not passed on", { method: req.method, error: (error as Error).cause ?? error });
      sendError(req, res, error, { closing: true });
    });
  };

  /** Rejects where nothing was answered, and another owner may be asked. */
  readonly pass = (req: IncomingMessage, res: ServerResponse): Promise<void> =>
    new Promise((resolve, reject) => {
      if (res.destroyed) return resolve();
      res.once("close", resolve);
      this.#pass(req, res, reject);
    });

  #pass(req: IncomingMessage, res: ServerResponse, failed: (error: SvcError) => void): void {
    const headers = [...passedHeaders(req.rawHeaders, EXPECT), ...framingOf(req)];
    // HTTP/1.0, as some load balancers ask, does not need what 1.1 does.
    if (req.headers.host === undefined) headers.push("Host", "localhost");
    const agent = this.#agentOf(req.socket);
    const upstream = request({ agent, method: req.method, path: req.url, headers: headers as never });
    let answered = false;
    upstream.once("response", (answer) => {
      answered = true;
      // What is left of a refused body stands before the next request.
      if (!req.complete) res.shouldKeepAlive = false;
      sendBack(answer, res)
        .catch(() => void res.destroy())
        .finally(() => {
          if (!req.complete) drain(req, () => endConnection(req.socket, CONNECTION_END_MAX_MS));
        });
    });
    let isSent = false;
    upstream.on("error", (cause) => {
      if (answered || res.destroyed) return;
      const help = "Try again soon.";
      const error = new SvcError("SHUTTING_DOWN", "The platform does not answer.", { help, cause });
      if (!isSent || BARE.has(req.method ?? "")) {
        failed(error);
        return;
      }
      this.#log.error("a request was not passed on", { method: req.method, error: cause });
      sendError(req, res, error, { closing: true });
    });
    res.once("close", () => {
      if (!res.writableFinished) upstream.destroy();
    });
    // Whoever answers sees it, too, when the caller sends no more: who only follows is let go then.
    const { socket } = req;
    const sendsNoMore = () => upstream.socket?.end();
    upstream.once("finish", () => {
      if (socket.readableEnded) sendsNoMore();
      else socket.once("end", sendsNoMore);
    });
    res.once("close", () => socket.off("end", sendsNoMore));
    // Nothing of it is taken before there is a connection.
    upstream.once("socket", () => {
      isSent = true;
      req.pipe(upstream);
    });
  }

  #agentOf(caller: Socket): InstanceType<typeof Agent> {
    const known = this.#agents.get(caller);
    if (known !== undefined) return known;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    agent.createConnection = (_options, made) => {
      const dialled = this.#dial(caller);
      if (!(dialled instanceof Promise)) return dialled;
      dialled.then(
        (socket) => made?.(null, socket),
        (error) => made?.(error, undefined as never),
      );
      return undefined;
    };
    this.#agents.set(caller, agent);
    caller.once("close", () => agent.destroy());
    return agent;
  }
}
