/**
 * One endpoint of a preview on ports of its own: what is called there reaches the preview's platform below the
 * endpoint's URL and with the preview's key, bodies streaming both ways.
 *
 *   http://localhost:<port>/runsync ──▶ <platform>/v2/<endpoint>/runsync
 *   http://<endpoint>:<port>/analyze ──▶ <platform>/lb/<endpoint>/analyze      (from a container)
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { BlockList, isIPv6, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { refusalOf } from "../../dev/guard.ts";
import { errorBody, SvcError } from "../../domain/errors.ts";
import { CONNECTION_END_MAX_MS } from "../../domain/limits.ts";
import { createServer } from "../../lib/http.ts";
import { type Forwarded, framingOf, passedHeaders, plainAnswer, sendBack, Upstream } from "../../lib/proxy.ts";

/** The preview's key stands in place of the caller's. */
const OWN_KEY = new Set(["authorization"]);

/** Where an endpoint is on the preview's platform. */
interface FrontTarget {
  /** Base URL of its calls. */
  readonly url: string;
  readonly apiKey: string;
}

interface Listening {
  readonly address: string;
  readonly admission: Admission;
}

export class Front {
  readonly #upstream = new Upstream();
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
    this.#upstream.close();
    await Promise.all(closing);
  }

  #server(admission: Admission): Server {
    // The platform has the time limits; node's own would cut long uploads and waits.
    const server = createServer(
      { requestTimeout: 0 },
      {
        onRequest: (req, res) => void this.#forward(req, res, admission),
        onUpgrade: (req, socket, head) => void this.#upgrade(req, socket, head, admission),
      },
    );
    server.on("connection", (connection: Socket) => {
      this.#connections.add(connection);
      connection.once("close", () => this.#connections.delete(connection));
    });
    return server;
  }

  async #forward(req: IncomingMessage, res: ServerResponse, admission: Admission): Promise<void> {
    try {
      const upstream = this.#upstream.open(this.#forwarded(req, admission, framingOf(req)));
      res.once("close", () => upstream.destroy());
      const answered = new Promise<IncomingMessage>((resolve, reject) => {
        upstream.once("response", resolve).on("error", (cause) => reject(unreachable(cause)));
      });
      // A refusal may come before everything is sent: the answer counts, not the broken pipe.
      pipeline(req, upstream).catch(() => {});
      const answer = await answered;
      await sendBack(answer, res).catch(() => res.destroy());
    } catch (error) {
      refuse(res, error);
    }
  }

  async #upgrade(req: IncomingMessage, socket: Duplex, head: Buffer, admission: Admission): Promise<void> {
    socket.on("error", () => socket.destroy());
    try {
      const forwarded = this.#forwarded(req, admission);
      const answer = await this.#upstream.upgrade(forwarded, req.headers.upgrade ?? "", socket, head);
      if (answer.statusCode !== 101)
        await sendBack(answer, plainAnswer(req, socket, CONNECTION_END_MAX_MS)).catch(() => socket.destroy());
    } catch (error) {
      refuse(plainAnswer(req, socket, CONNECTION_END_MAX_MS), error instanceof SvcError ? error : unreachable(error));
    }
  }

  /** The same request for the platform. Throws FORBIDDEN, and SHUTTING_DOWN before there is an endpoint. */
  #forwarded(req: IncomingMessage, admission: Admission, framing: readonly string[] = []): Forwarded {
    admitCaller(req, admission);
    const target = this.#target;
    if (target === undefined) {
      throw new SvcError("SHUTTING_DOWN", "The preview is still starting.", { help: "Try again in a moment." });
    }
    const to = new URL(target.url);
    return {
      to,
      method: req.method ?? "GET",
      path: to.pathname + pathOf(req.url ?? "/", to.pathname),
      headers: [...passedHeaders(req.rawHeaders, OWN_KEY), ...framing, "Authorization", `Bearer ${target.apiKey}`],
    };
  }
}

/** Below the endpoint's URL. A caller that was given the full URL of a deployed endpoint may go on using its path. */
function pathOf(url: string, base: string): string {
  const path = url.replace(/^https?:\/\/[^/?#]*/i, "");
  if (path === base || path.startsWith(`${base}/`) || path.startsWith(`${base}?`)) return path.slice(base.length);
  return path.startsWith("/") || path === "" ? path : `/${path}`;
}

function unreachable(cause: unknown): SvcError {
  return new SvcError("PLATFORM_UNREACHABLE", "The preview's platform does not answer.", { cause });
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

/**
 * Who may call a preview's ports. They ask for no key, so they answer nobody but programs of this machine and the
 * preview's own containers: not browser pages of other sites, and no name that was bent to this machine's address.
 */
export interface Admission {
  /** Name that callers use, beside those of this machine. */
  readonly host: string;
  /** Where callers may come from: an address with a prefix length; undefined: from wherever the port is reached. */
  readonly subnet: string | undefined;
  /** The endpoint's `cors` setting. */
  readonly cors: string;
}

/** Throws FORBIDDEN. */
function admitCaller(req: IncomingMessage, { host, subnet, cors }: Admission): void {
  if (subnet !== undefined && !inSubnet(req.socket.remoteAddress ?? "", subnet)) {
    throw new SvcError("FORBIDDEN", "Only containers of this preview may call this address.");
  }
  const refusal = refusalOf({ method: req.method, url: req.url, headers: req.headers }, { host, cors });
  if (refusal === undefined) return;
  throw new SvcError("FORBIDDEN", refusal.message, {
    help: `Call it as ${host}, or name the page's origin in the endpoint's cors setting.`,
  });
}

function inSubnet(address: string, subnet: string): boolean {
  const [network = "", bits = ""] = subnet.split("/");
  const list = new BlockList();
  list.addSubnet(network, Number(bits), isIPv6(network) ? "ipv6" : "ipv4");
  const plain = address.replace(/^::ffff:/, "");
  return list.check(plain, isIPv6(plain) ? "ipv6" : "ipv4");
}
