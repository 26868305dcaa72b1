/**
 * What a server needs that passes calls on to another one as they stream: which headers go along, the answer on its way
 * back, and the bytes of a connection that was upgraded.
 */
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { endConnection } from "./end-connection.ts";
import { Agent, request as httpRequest, ServerResponse } from "./http.ts";

/** Names, in lower case, of headers that belong to one connection and not to the message (RFC 9110, 7.6.1). */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const UPGRADE = ["Connection", "Upgrade", "Upgrade"];

/** Of a flat list of headers all but those of the connection, those that `Connection` names, and `without` (lower case). */
export function passedHeaders(raw: readonly string[], without: ReadonlySet<string> = new Set()): string[] {
  const named = new Set<string>();
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.toLowerCase() !== "connection") continue;
    for (const name of raw[i + 1]!.split(",")) named.add(name.trim().toLowerCase());
  }
  const kept: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!.toLowerCase();
    if (!HOP_BY_HOP.has(name) && !named.has(name) && !without.has(name)) kept.push(raw[i]!, raw[i + 1]!);
  }
  return kept;
}

/** The headers that say how a request's body is delimited, as it came; a request without one says so. */
export function framingOf({ method, headers }: IncomingMessage): string[] {
  if (headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", headers["transfer-encoding"]];
  if (headers["content-length"] !== undefined || method === "GET" || method === "HEAD") return [];
  return ["Content-Length", "0"];
}

export interface Forwarded {
  /** Where to; nothing but `path` decides what is asked there. */
  readonly to: URL;
  readonly method: string;
  /** As it is sent, with the query. */
  readonly path: string;
  /** Flat. */
  readonly headers: readonly string[];
}

/** The side of a proxy that calls. */
export class Upstream {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #secureAgent = new HttpsAgent({ keepAlive: true });

  /** Opens the request; the caller ends it. */
  open({ to, method, path, headers }: Forwarded): ClientRequest {
    const secure = to.protocol === "https:";
    return (secure ? httpsRequest : httpRequest)({
      // Apart, and the path as it is: an address put together would be resolved.
      hostname: to.hostname.replace(/^\[|\]$/g, ""),
      port: to.port,
      path,
      method,
      agent: secure ? this.#secureAgent : this.#agent,
      headers: [...headers],
    });
  }

  /**
   * Asks for an upgrade. After a 101 the bytes of both connections pass on, also those that came with the request (`head`);
   * another answer is for the caller to give. Rejects when there is none.
   */
  upgrade(forwarded: Forwarded, protocol: string, socket: Duplex, head: Buffer): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const upstream = this.open({ ...forwarded, headers: [...forwarded.headers, ...UPGRADE, protocol] });
      socket.once("close", () => upstream.destroy());
      upstream.on("error", reject);
      upstream.once("response", resolve);
      upstream.once("upgrade", (answer, other: Socket, first) => {
        upstream.on("error", () => socket.destroy());
        const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`];
        const { rawHeaders } = answer;
        for (let i = 0; i < rawHeaders.length; i += 2) lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
        socket.write(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
        if (first.length > 0) socket.write(first);
        if (head.length > 0) other.write(head);
        pipeline(socket, other).catch(() => other.destroy());
        pipeline(other, socket).catch(() => socket.destroy());
        resolve(answer);
      });
      upstream.end();
    });
  }

  close(): void {
    this.#agent.destroy();
    this.#secureAgent.destroy();
  }
}

/** Status, headers and body of an answer, as they come. Rejects when either side breaks off. */
export async function sendBack(answer: IncomingMessage, res: ServerResponse): Promise<void> {
  res.writeHead(answer.statusCode ?? 502, answer.statusMessage, passedHeaders(answer.rawHeaders));
  res.flushHeaders();
  // pipeline() leaves it open if the caller is gone already.
  await pipeline(answer, res).finally(() => answer.destroy());
}

/** An ordinary answer in place of an upgrade; the connection ends with it, at the latest so long behind it. */
export function plainAnswer(req: IncomingMessage, socket: Duplex, endMaxMs: number): ServerResponse {
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket as Socket);
  res.once("finish", () => endConnection(socket, endMaxMs));
  return res;
}
