/**
 * Requests that only the owner answers, passed on as they came: the management API, the console, workers that pull their jobs. A caller's
 * connection has one of its own to the owner, which ends with it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { SvcError } from "../domain/errors.ts";
import { Agent, request } from "../lib/http.ts";
import { framingOf, passedHeaders, sendBack } from "../lib/proxy.ts";
import { drain } from "./body.ts";
import type { GatewayLog } from "./context.ts";
import { dialPrivately } from "./private-calls.ts";
import { sendError } from "./respond.ts";

/** Answered where the body is read. */
const EXPECT = new Set(["expect"]);

export class PassOn {
  readonly #socketPath: string;
  readonly #secret: Uint8Array;
  readonly #log: GatewayLog;
  readonly #agents = new WeakMap<Socket, InstanceType<typeof Agent>>();

  constructor(socketPath: string, secret: Uint8Array, log: GatewayLog) {
    this.#socketPath = socketPath;
    this.#secret = secret;
    this.#log = log;
  }

  readonly answer = (req: IncomingMessage, res: ServerResponse): void => {
    const headers = [...passedHeaders(req.rawHeaders, EXPECT), ...framingOf(req)];
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
          if (!req.complete) drain(req, () => req.socket.end());
        });
    });
    upstream.on("error", (error) => {
      if (answered || res.destroyed) return;
      this.#log.error("a request was not passed on", { method: req.method, error });
      sendError(req, res, new SvcError("SHUTTING_DOWN", "The platform does not answer.", { help: "Try again soon." }), {
        closing: true,
      });
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
    req.pipe(upstream);
  };

  #agentOf(caller: Socket): InstanceType<typeof Agent> {
    const known = this.#agents.get(caller);
    if (known !== undefined) return known;
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    agent.createConnection = () => dialPrivately(this.#socketPath, this.#secret, caller);
    this.#agents.set(caller, agent);
    caller.once("close", () => agent.destroy());
    return agent;
  }
}
