/** One request to a platform, and the translation of everything that can go wrong into a SvcError. */
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../domain/errors.ts";
import { CLIENT_ANSWER_MAX_MS, CONNECT_MAX_MS } from "../domain/limits.ts";
import { request as httpRequest } from "../lib/http.ts";
import { answerError, keyError, knownCode, type Platform, parsed, unreachable } from "./answer-error.ts";

interface GraphqlAnswer {
  readonly data?: unknown;
  readonly errors?: readonly {
    readonly message: string;
    readonly extensions?: { readonly code?: string; readonly help?: string };
  }[];
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Runs one GraphQL operation. All of its errors end up in one SvcError with the code of the first. */
export async function request<T>(
  platform: Platform,
  body: { query: string; variables: object },
  signal?: AbortSignal,
): Promise<T> {
  const { status, text } = await fetchText(platform, `${platform.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
    idleMs: CLIENT_ANSWER_MAX_MS,
  });
  const answer = parsed<GraphqlAnswer>(text);
  if (status === 401) throw keyError(platform);
  const first = answer?.errors?.[0];
  if (answer?.errors !== undefined && first !== undefined) {
    const code = knownCode(first.extensions?.code);
    if (code === "MISSING_KEY" || code === "WRONG_KEY") throw keyError(platform);
    const message = answer.errors.map((error) => error.message).join("\n");
    throw new SvcError(code, message, { help: first.extensions?.help });
  }
  if (status >= 400 || answer?.data === undefined) throw answerError(platform.url, status, text);
  return answer.data as T;
}

/** Asks with the key; connection trouble becomes PLATFORM_UNREACHABLE. Other statuses are the caller's business. */
export async function fetchText(
  platform: Platform,
  url: string,
  init: { method: string; headers?: Record<string, string>; body?: string; signal?: AbortSignal; idleMs?: number },
): Promise<Answer> {
  const { method, body, signal, idleMs: timeout } = init;
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const outgoing = open(platform, url, { method, signal, timeout, headers: { ...init.headers, ...length } });
  outgoing.end(body);
  try {
    return await answerOf(outgoing);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw unreachable(platform.url, error);
  }
}

/** node:http, because loading fetch takes a command longer than its request. */
function open(platform: Platform, address: string, options: RequestOptions): ClientRequest {
  const url = new URL(address);
  const send = url.protocol === "https:" ? httpsRequest : httpRequest;
  // Without a time of its own a request would have that of the agent, 5 s.
  const { timeout = 0, headers } = options;
  const outgoing = send(url, { ...options, timeout, headers: { ...headers, ...authorization(platform) } });
  const giveUp = () => outgoing.destroy(Object.assign(new Error("no answer"), { code: "ETIMEDOUT" }));
  outgoing.once("timeout", giveUp);
  outgoing.once("socket", (socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(giveUp, CONNECT_MAX_MS);
    const clear = () => clearTimeout(timer);
    socket.once("connect", clear).once("close", clear);
  });
  return outgoing;
}

function answerOf(outgoing: ClientRequest): Promise<Answer> {
  return new Promise((resolve, reject) => {
    outgoing.once("error", reject);
    outgoing.once("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.once("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
      response.once("error", reject);
    });
  });
}

/** The lines of a streamed answer as they come. `refuse` makes the error of any other status than 200. */
export async function* fetchLines(
  platform: Platform,
  url: string,
  signal: AbortSignal | undefined,
  refuse: (status: number, text: string) => SvcError,
  onOpen: () => void = () => {},
): AsyncGenerator<string> {
  let rest = "";
  try {
    const response = await responseTo(open(platform, url, { signal }));
    if (response.statusCode === 401) throw keyError(platform);
    if (response.statusCode !== 200) throw refuse(response.statusCode ?? 0, await text(response));
    onOpen();
    for await (const piece of response.setEncoding("utf8") as AsyncIterable<string>) {
      const lines = (rest + piece).split("\n");
      rest = lines.pop()!;
      yield* lines;
    }
  } catch (error) {
    if (signal?.aborted) return;
    throw error instanceof SvcError ? error : unreachable(platform.url, error);
  }
  if (rest !== "") yield rest;
}

/** Sends a stream whose length is in the headers. Connection trouble becomes PLATFORM_UNREACHABLE, any status is an answer. */
export async function sendStream(
  platform: Platform,
  path: string,
  bytes: Readable,
  options: RequestOptions,
): Promise<Answer> {
  const outgoing = open(platform, platform.url + path, options);
  const answered = answerOf(outgoing);
  // A refusal may arrive before everything is sent: the answer counts, not the broken pipe.
  const sent = pipeline(bytes, outgoing).catch((error: unknown) => error);
  try {
    return await answered;
  } catch (error) {
    throw unreachable(platform.url, error);
  } finally {
    bytes.destroy();
    // Nobody reads the rest of what was refused.
    if (!outgoing.writableFinished) outgoing.destroy();
    await sent;
  }
}

/** The answer's bytes as they come; whatever ends them early is an error. */
export async function receive(platform: Platform, path: string, options: RequestOptions): Promise<IncomingMessage> {
  const response = await responseTo(open(platform, platform.url + path, options)).catch((error) => {
    throw options.signal?.aborted ? error : unreachable(platform.url, error);
  });
  if (response.statusCode === 200) return response;
  throw refusalOf(platform, response.statusCode ?? 0, await text(response));
}

/** Of a request without a body; its answer's body is still to come. */
function responseTo(outgoing: ClientRequest): Promise<IncomingMessage> {
  outgoing.end();
  return new Promise((resolve, reject) => {
    outgoing.once("error", reject).once("response", resolve);
  });
}

/** The error of an answer with another status than 2xx. */
export function refusalOf(platform: Platform, status: number, text: string): SvcError {
  if (status === 401) return keyError(platform);
  const error = answerError(platform.url, status, text);
  // A proxy speaks for a platform that is being started again.
  const isProxy = error.code === "INTERNAL" && status >= 502 && status <= 504;
  return isProxy ? unreachable(platform.url, new Error(`it answered ${status}`)) : error;
}

function authorization(platform: Platform): Record<string, string> {
  return platform.apiKey === undefined ? {} : { authorization: `Bearer ${platform.apiKey}` };
}
