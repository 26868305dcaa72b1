/**
 * One call, passed to the platform and its answer back, as it streams, both ways. A body is held back until the platform
 * has agreed to the call (`Expect: 100-continue`), so that a call which has to be repeated on newer code has lost nothing.
 */
import {
  Agent,
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";
import { type Platform, unreachable } from "../client/answer-error.ts";
import { INLINE_BODY_MAX_BYTES } from "../domain/limits.ts";
import { HOP_BY_HOP } from "../lib/hop-by-hop.ts";
import { passedHeaders } from "./passed-headers.ts";

export interface Outgoing {
  /** The endpoint's own address; nothing but `path` decides what is asked of it. */
  readonly endpoint: URL;
  /** As it is sent: below the endpoint's path, with the query. */
  readonly path: string;
  readonly platform: Platform;
  /** Source layer it must run on; undefined for calls that run nothing. */
  readonly source: string | undefined;
  /** Whole when it was short and has been read; undefined: none, or still to be read from the request. */
  readonly body: Buffer | undefined;
}

export type Passed =
  | {
      readonly outcome: "answered";
      readonly status: number;
      readonly headers: IncomingMessage["headers"];
      readonly body: Buffer;
    }
  /** The endpoint runs other code, or is gone: nothing was run and nothing answered yet. */
  | { readonly outcome: "outdated" | "gone" }
  /** The caller left, or an answer broke off. */
  | { readonly outcome: "broken" };

const CONTINUE_WAIT_MS = 1_000;
/** What the terminal wants to know of an answer stands in its first bytes. */
const SEEN_MAX_BYTES = 1024 * 1024;

export class PassThrough {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #secureAgent = new HttpsAgent({ keepAlive: true });

  /** Opens the request; the caller ends it. */
  open(method: string, incoming: IncomingMessage, outgoing: Outgoing, extra: readonly string[] = []): ClientRequest {
    const { protocol, hostname, port } = outgoing.endpoint;
    const secure = protocol === "https:";
    const send = secure ? httpsRequest : httpRequest;
    return send({
      // Apart, and the path as it is: an address put together would be resolved.
      hostname: hostname.replace(/^\[|\]$/g, ""),
      port,
      path: outgoing.path,
      method,
      agent: secure ? this.#secureAgent : this.#agent,
      headers: [...passedHeaders(incoming.rawHeaders, outgoing), ...extra],
    });
  }

  /** Throws PLATFORM_UNREACHABLE when nothing was answered. */
  async pass(req: IncomingMessage, res: ServerResponse, outgoing: Outgoing): Promise<Passed> {
    const hasBody =
      outgoing.body === undefined && (req.headers["transfer-encoding"] ?? req.headers["content-length"] ?? "0") !== "0";
    const method = req.method ?? "GET";
    const bodyless =
      !hasBody &&
      outgoing.body === undefined &&
      req.headers["content-length"] === undefined &&
      method !== "GET" &&
      method !== "HEAD";
    const extra = hasBody ? ["Expect", "100-continue"] : bodyless ? ["Content-Length", "0"] : [];
    const upstream = this.open(method, req, outgoing, extra);
    const left = () => upstream.destroy();
    res.once("close", left);
    try {
      const answer = await answerTo(upstream, req, outgoing, hasBody);
      const refused = await refusal(answer);
      if (refused?.code === "SOURCE_OUTDATED") return { outcome: "outdated" };
      if (refused?.code === "ENDPOINT_NOT_FOUND") return { outcome: "gone" };
      return await sendBack(answer, res, refused?.body);
    } catch (error) {
      if (res.headersSent || res.destroyed) {
        res.destroy();
        return { outcome: "broken" };
      }
      throw unreachable(outgoing.platform.url, error);
    } finally {
      res.off("close", left);
    }
  }

  close(): void {
    this.#agent.destroy();
    this.#secureAgent.destroy();
  }
}

/** Sends the body when the platform asks for it; an answer that comes before is the answer. */
function answerTo(
  upstream: ClientRequest,
  req: IncomingMessage,
  outgoing: Outgoing,
  hasBody: boolean,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let answered = false;
    upstream.once("response", (answer) => {
      answered = true;
      resolve(answer);
    });
    upstream.once("error", reject);
    if (!hasBody) {
      upstream.end(outgoing.body);
      return;
    }
    let sent = false;
    const send = () => {
      if (sent || upstream.destroyed || answered) return;
      sent = true;
      req.once("error", () => upstream.destroy());
      req.pipe(upstream);
    };
    // A proxy in between may know nothing of 100-continue: then the body is sent all the same.
    const timer = setTimeout(send, CONTINUE_WAIT_MS);
    upstream.once("continue", send);
    upstream.once("close", () => clearTimeout(timer));
    upstream.flushHeaders();
  });
}

/** The platform's own error, read whole; undefined for what a function or a job answered. */
async function refusal(answer: IncomingMessage): Promise<{ code: string | undefined; body: Buffer } | undefined> {
  const own =
    answer.headers["x-svc-worker-id"] === undefined && (answer.statusCode === 409 || answer.statusCode === 404);
  if (!own) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  try {
    return { code: (JSON.parse(body.toString("utf8")) as { code?: string }).code, body };
  } catch {
    return { code: undefined, body };
  }
}

async function sendBack(answer: IncomingMessage, res: ServerResponse, whole: Buffer | undefined): Promise<Passed> {
  const status = answer.statusCode ?? 502;
  res.writeHead(status, answer.statusMessage, answerHeaders(answer.rawHeaders));
  if (whole !== undefined) {
    res.end(whole);
    return { outcome: "answered", status, headers: answer.headers, body: whole };
  }
  res.flushHeaders();
  const seen: Buffer[] = [];
  let bytes = 0;
  answer.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= SEEN_MAX_BYTES) seen.push(chunk);
  });
  await pipeline(answer, res);
  return {
    outcome: "answered",
    status,
    headers: answer.headers,
    body: bytes <= SEEN_MAX_BYTES ? Buffer.concat(seen) : Buffer.alloc(0),
  };
}

export function answerHeaders(raw: readonly string[]): string[] {
  const flat: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    if (!HOP_BY_HOP.has(raw[i]!.toLowerCase())) flat.push(raw[i]!, raw[i + 1]!);
  }
  return flat;
}

/** The body of a request that says it is short; undefined when there is none, or it is to be streamed. */
export async function shortBody(req: IncomingMessage): Promise<Buffer | undefined> {
  const declared = req.headers["content-length"];
  if (declared === undefined || declared === "0" || Number(declared) > INLINE_BODY_MAX_BYTES) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
