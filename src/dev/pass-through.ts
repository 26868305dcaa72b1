/**
 * One call, passed to the platform and its answer back, as it streams, both ways. A body is held back until the platform
 * has agreed to the call (`Expect: 100-continue`), so that a call which has to be repeated on newer code has lost nothing.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { type Platform, unreachable } from "../client/answer-error.ts";
import { CONNECTION_END_MAX_MS, INLINE_BODY_MAX_BYTES } from "../domain/limits.ts";
import { type Forwarded, framingOf, passedHeaders, plainAnswer, sendBack, Upstream } from "../lib/proxy.ts";
import { CALL_HEADER } from "./call-logs.ts";

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

type Upgraded = { readonly outcome: "answered"; readonly status: number } | { readonly outcome: "outdated" | "gone" };

const CONTINUE_WAIT_MS = 1_000;
/** What the terminal wants to know of an answer stands in its first bytes. */
const SEEN_MAX_BYTES = 1024 * 1024;

/** What stands for the caller in the platform's eyes is ours to say; `Expect` is answered here. */
const REPLACED = new Set(["authorization", "expect", "host", "x-svc-source", CALL_HEADER]);

export class PassThrough {
  readonly #upstream = new Upstream();

  /** Throws PLATFORM_UNREACHABLE when nothing was answered. */
  async pass(req: IncomingMessage, res: ServerResponse, outgoing: Outgoing): Promise<Passed> {
    const hasBody =
      outgoing.body === undefined && (req.headers["transfer-encoding"] ?? req.headers["content-length"] ?? "0") !== "0";
    const extra = hasBody ? ["Expect", "100-continue"] : [];
    const upstream = this.#upstream.open(forwarded(req, outgoing, req.method ?? "GET", extra));
    const left = () => upstream.destroy();
    res.once("close", left);
    try {
      const answer = await answerTo(upstream, req, outgoing, hasBody);
      const refused = await refusal(answer);
      if (refused?.code === "SOURCE_OUTDATED") return { outcome: "outdated" };
      if (refused?.code === "ENDPOINT_NOT_FOUND") return { outcome: "gone" };
      return await answered(answer, res, refused?.body);
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

  /**
   * A WebSocket call: the handshake goes to the platform, and from its 101 on the bytes of the connection pass both ways.
   * Rejects with the error of the connection to the platform.
   */
  async upgrade(req: IncomingMessage, socket: Socket, head: Buffer, outgoing: Outgoing): Promise<Upgraded> {
    const answer = await this.#upstream.upgrade(forwarded(req, outgoing, "GET"), "websocket", socket, head);
    const status = answer.statusCode ?? 502;
    if (status === 101) return { outcome: "answered", status };
    const body = await buffer(answer);
    const code = /"code":"([A-Z_]+)"/.exec(body.toString("utf8"))?.[1];
    if (answer.headers["x-svc-worker-id"] === undefined) {
      if (code === "SOURCE_OUTDATED") return { outcome: "outdated" };
      if (code === "ENDPOINT_NOT_FOUND") return { outcome: "gone" };
    }
    plainAnswer(req, socket, CONNECTION_END_MAX_MS).writeHead(status, passedHeaders(answer.rawHeaders)).end(body);
    return { outcome: "answered", status };
  }

  close(): void {
    this.#upstream.close();
  }
}

/** The caller's own headers, with the key and the source in place of nothing. A body keeps its form. */
function forwarded(
  req: IncomingMessage,
  { endpoint, path, platform, source }: Outgoing,
  method: string,
  extra: readonly string[] = [],
): Forwarded {
  const headers = ["Host", endpoint.host, ...passedHeaders(req.rawHeaders, REPLACED), ...framingOf(req), ...extra];
  if (platform.apiKey !== undefined) headers.push("Authorization", `Bearer ${platform.apiKey}`);
  if (source !== undefined) headers.push("X-Svc-Source", source);
  return { to: endpoint, method, path, headers };
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
  const body = await buffer(answer);
  try {
    return { code: (JSON.parse(body.toString("utf8")) as { code?: string }).code, body };
  } catch {
    return { code: undefined, body };
  }
}

/** What was read already is sent whole. */
async function answered(answer: IncomingMessage, res: ServerResponse, whole: Buffer | undefined): Promise<Passed> {
  const { statusCode: status = 502, headers } = answer;
  if (whole !== undefined) {
    res.writeHead(status, answer.statusMessage, passedHeaders(answer.rawHeaders)).end(whole);
    return { outcome: "answered", status, headers, body: whole };
  }
  const seen: Buffer[] = [];
  let bytes = 0;
  answer.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= SEEN_MAX_BYTES) seen.push(chunk);
  });
  await sendBack(answer, res);
  return {
    outcome: "answered",
    status,
    headers,
    body: bytes <= SEEN_MAX_BYTES ? Buffer.concat(seen) : Buffer.alloc(0),
  };
}

/** The body of a request that says it is short; undefined when there is none, or it is to be streamed. */
export async function shortBody(req: IncomingMessage): Promise<Buffer | undefined> {
  const declared = req.headers["content-length"];
  if (declared === undefined || declared === "0" || Number(declared) > INLINE_BODY_MAX_BYTES) return undefined;
  return buffer(req);
}
