/**
 * One endpoint of a preview on ports of its own: what is called there reaches the preview's platform below the
 * endpoint's URL and with the preview's key, bodies streaming both ways.
 *
 *   http://localhost:<port>/runsync ──▶ <platform>/v2/<endpoint>/runsync
 *   http://<endpoint>:<port>/analyze ──▶ <platform>/lb/<endpoint>/analyze      (from a container)
 */
import {
  Agent,
  type ClientRequest,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { errorBody, SvcError } from "../../domain/errors.ts";
import { HOP_BY_HOP } from "../../lib/hop-by-hop.ts";
import { type Admission, admitCaller } from "./admission.ts";

/** Where an endpoint is on the preview's platform. */
export interface FrontTarget {
  /** Base URL of its calls. */
  readonly url: string;
  readonly apiKey: string;
}

export interface Listening {
  readonly address: string;
  readonly admission: Admission;
}

export class Front {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #servers: Server[] = [];
  readonly #connections = new Set<Socket>();
  #target: FrontTarget | undefined;

  /** From now on calls reach the endpoint; before, they are answered with 503. */
  connect(target: FrontTarget): void {
    this.#target = target;
  }

  /**
   * Listens at `port` of every address. False when the port is taken at one of them: it then listens nowhere. An address
   * that this machine does not have is left out when it is `optional`.
   */
  async listen(port: number, places: readonly (Listening & { readonly optional?: boolean })[]): Promise<boolean> {
    for (const { address, admission, optional } of places) {
      const server = this.#server(admission);
      const problem = await listening(server, port, address);
      if (problem === undefined) this.#servers.push(server);
      else if (problem.code === "EADDRINUSE" || problem.code === "EACCES") {
        await this.close();
        return false;
      } else if (!optional) {
        throw new SvcError("ENGINE_UNREACHABLE", `The preview cannot listen at ${address}: ${problem.message}.`, {
          help: "A preview needs an engine whose networks are on this machine: not rootless, and not in a virtual machine.",
          cause: problem,
        });
      }
    }
    return true;
  }

  /** Cuts running calls off. */
  async close(): Promise<void> {
    const closing = this.#servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve)));
    // The server itself knows nothing of those that were upgraded.
    for (const connection of this.#connections) connection.destroy();
    this.#agent.destroy();
    await Promise.all(closing);
  }

  #server(admission: Admission): Server {
    // The platform has the time limits; node's own would cut long uploads and waits.
    const server = createServer({ requestTimeout: 0 }, (req, res) => void this.#forward(req, res, admission));
    server.on("connection", (connection: Socket) => {
      this.#connections.add(connection);
      connection.once("close", () => this.#connections.delete(connection));
    });
    server.on("upgrade", (req, socket, head) => this.#upgrade(req, socket, head, admission));
    return server;
  }

  async #forward(req: IncomingMessage, res: ServerResponse, admission: Admission): Promise<void> {
    try {
      const upstream = this.#open(req, admission);
      res.once("close", () => upstream.destroy());
      const answered = answerOf(upstream);
      // A refusal may come before everything is sent: the answer counts, not the broken pipe.
      pipeline(req, upstream).catch(() => {});
      const answer = await answered;
      res.writeHead(answer.statusCode!, answer.statusMessage, passedOn(answer.rawHeaders));
      res.flushHeaders();
      await pipeline(answer, res).catch(() => res.destroy());
    } catch (error) {
      refuse(res, error);
    }
  }

  #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, admission: Admission): void {
    socket.on("error", () => socket.destroy());
    const plain = () => {
      const res = new ServerResponse(req);
      res.shouldKeepAlive = false;
      res.assignSocket(socket as Socket);
      res.once("finish", () => socket.end());
      return res;
    };
    let upstream: ClientRequest;
    try {
      upstream = this.#open(req, admission, ["Connection", "Upgrade", "Upgrade", req.headers.upgrade ?? ""]);
    } catch (error) {
      refuse(plain(), error);
      return;
    }
    socket.once("close", () => upstream.destroy());
    upstream.once("error", (error) => refuse(plain(), error));
    upstream.once("response", (answer) => {
      const res = plain();
      res.writeHead(answer.statusCode!, passedOn(answer.rawHeaders));
      pipeline(answer, res).catch(() => socket.destroy());
    });
    upstream.once("upgrade", (answer, other, first) => {
      upstream.removeAllListeners("error").on("error", () => socket.destroy());
      const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`];
      for (let i = 0; i < answer.rawHeaders.length; i += 2)
        lines.push(`${answer.rawHeaders[i]}: ${answer.rawHeaders[i + 1]}`);
      socket.write(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
      if (first.length > 0) socket.write(first);
      if (head.length > 0) other.write(head);
      pipeline(socket, other).catch(() => other.destroy());
      pipeline(other, socket).catch(() => socket.destroy());
    });
    upstream.end();
  }

  /** The same request to the platform. Throws FORBIDDEN, and SHUTTING_DOWN before there is an endpoint. */
  #open(req: IncomingMessage, admission: Admission, more: readonly string[] = []): ClientRequest {
    admitCaller(req, admission);
    const target = this.#target;
    if (target === undefined) {
      throw new SvcError("SHUTTING_DOWN", "The preview is still starting.", { help: "Try again in a moment." });
    }
    const { hostname, port, pathname } = new URL(target.url);
    return httpRequest({
      agent: this.#agent,
      host: hostname,
      port,
      method: req.method,
      path: pathname + pathOf(req.url ?? "/", pathname),
      headers: [...passedOn(req.rawHeaders), "Authorization", `Bearer ${target.apiKey}`, ...more],
    });
  }
}

/** Below the endpoint's URL. A caller that was given the full URL of a deployed endpoint may go on using its path. */
function pathOf(url: string, base: string): string {
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "");
  if (path === base || path.startsWith(`${base}/`) || path.startsWith(`${base}?`)) return path.slice(base.length);
  return path.startsWith("/") || path === "" ? path : `/${path}`;
}

/** All but what belongs to a connection, and the caller's own key: the preview's stands in its place. */
function passedOn(rawHeaders: readonly string[]): string[] {
  const named = new Set<string>();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]!.toLowerCase() !== "connection") continue;
    for (const name of rawHeaders[i + 1]!.split(",")) named.add(name.trim().toLowerCase());
  }
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (HOP_BY_HOP.has(name) || named.has(name) || name === "authorization") continue;
    kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  return kept;
}

function answerOf(upstream: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    upstream.once("response", resolve);
    upstream.once("error", (cause) => {
      reject(new SvcError("PLATFORM_UNREACHABLE", "The preview's platform does not answer.", { cause }));
    });
  });
}

function refuse(res: ServerResponse, error: unknown): void {
  if (res.headersSent || res.destroyed) {
    res.destroy();
    return;
  }
  const body = errorBody(error);
  const text = JSON.stringify(body);
  res.writeHead(body.status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    connection: "close",
  });
  res.end(text);
}

function listening(server: Server, port: number, address: string): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    server.once("error", resolve);
    server.listen(port, address, () => {
      server.off("error", resolve);
      resolve(undefined);
    });
  });
}
