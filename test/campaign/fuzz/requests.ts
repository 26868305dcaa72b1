/**
 * Requests that no client of ours would send: routes × methods × headers × bodies, several in one connection, framed in ways that
 * invite smuggling, and GraphQL documents, uploads, WebSockets, what workers ask that pull their jobs, what OpenAI clients ask.
 */
import { createHash } from "node:crypto";
import type { Mutator } from "./mutate.ts";

export interface Target {
  readonly key: string;
  /** Paths of endpoints, by their names. */
  readonly urls: Readonly<Record<string, string>>;
  /** A worker of `puller`. */
  readonly worker: { readonly id: string; readonly token: string };
}

export interface Conversation {
  readonly bytes: Buffer;
  readonly requests: number;
  /** Something of it is answered only when there is something to say. */
  readonly isHeld: boolean;
}

const METHODS = ["GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "POST ", "\u00e9"];
const ROUTES =
  "run runsync status/x status-sync/x?wait=1000 stream/x cancel/x retry/x health purge-queue requests stream".split(
    " ",
  );
const OTHERS = [
  "/",
  "//",
  "/graphql",
  "/graphql?api_key=x",
  `/layers/${"a".repeat(64)}`,
  "/layers/%zz",
  "/volumes/a/b/c",
  "/hosts/join",
  "/device/code",
  "/metrics",
  "/readyz",
  "/v1/endpoints",
  "/logs/x",
  "/logs/%zz",
  "/login",
  "/v2/x/run",
  "/v2",
  "*",
  "http://x/y",
  "/%2e%2e/%2e%2e/graphql",
  "/v2/../graphql",
  "/\u0000",
  `/${"a".repeat(9000)}`,
];
const HEADERS = [
  "content-type: application/json",
  "content-type: text/plain",
  "content-type: multipart/form-data; boundary=B",
  "content-encoding: gzip",
  "transfer-encoding: chunked",
  "Transfer-Encoding: chunked, identity",
  "transfer-encoding : chunked",
  "content-length: 5",
  "content-length: 5, 6",
  "content-length: -1",
  "content-length: 99999999999999999999",
  "expect: 100-continue",
  "expect: x",
  "upgrade: websocket",
  "connection: upgrade",
  "connection: keep-alive",
  "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
  "sec-websocket-version: 13",
  "range: bytes=0-",
  "content-range: bytes 5-9/10",
  "idempotency-key: k",
  "x-forwarded-for: 1.2.3.4, \u00e9",
  "origin: http://x",
  "cookie: a=b; c",
  "host: evil",
  ": empty",
  "no colon",
  " folded: x",
  `x-long: ${"a".repeat(20_000)}`,
  "x-nul: \u0000",
];
const DOCUMENTS = [
  "{ myself { endpoints { id name url } } }",
  "{ __schema { types { name fields { name args { name } } } } }",
  'mutation { createKey(input: {name: "x", scopes: ["read"]}) { key } }',
  'mutation { deployBuild(input: {app: "a", environment: "b", manifest: "{}"}) { id } }',
  "query($a: [ID!]! = []) { node(id: $a) { ...F } } fragment F on Node { ...F }",
];
const TOKENS = [
  "\r\n",
  "\r\n\r\n",
  "\n",
  "\u0000",
  "{",
  "}",
  "(",
  ")",
  "$",
  "@",
  "!",
  "...",
  '"',
  "\\u0000",
  "0\r\n\r\n",
  "5\r\nhello\r\n",
  "HTTP/1.0",
  "HTTP/9.9",
  "__proto__",
];
const PER_CONNECTION_MAX = 8;

type Kind = (mutator: Mutator, target: Target) => Asked;

interface Asked {
  readonly method: string;
  readonly route: string;
  readonly body?: Buffer;
  readonly headers?: readonly string[];
  /** In place of the platform's key. */
  readonly secret?: string;
  readonly isHeld?: boolean;
  /** Is answered until the caller closes its sending side. */
  readonly follows?: boolean;
}

/** Each as often as it stands here. */
const KINDS: readonly Kind[] = [
  ...[graphql, graphql, graphql, jobOrRoute, jobOrRoute, jobOrRoute, jobOrRoute, jobOrRoute, jobOrRoute],
  ...[other, other, other, tagged, tagged, upload, upload, volume, volume],
  ...[openai, openai, pulled, stream, stream, socket],
];

/** The bytes of one connection. `number` tells its tags from those of others. */
export function conversation(mutator: Mutator, target: Target, number = 0): Conversation {
  const count = 1 + mutator.below(PER_CONNECTION_MAX);
  let isHeld = false;
  const parts = Array.from({ length: count }, (_, n) => {
    const asked = mutator.pick(KINDS)(mutator, target);
    // What stands behind a follower may keep the platform from reading that the caller has ended.
    isHeld ||= asked.isHeld === true || (asked.follows === true && n < count - 1);
    return written(mutator, target, { ...asked, route: asked.route.replace("TAG", `${number}-${n}`) }, n === count - 1);
  });
  return { bytes: Buffer.concat(parts), requests: count, isHeld };
}

function written(mutator: Mutator, { key }: Target, asked: Asked, isLast: boolean): Buffer {
  const { random } = mutator;
  const { method, route, body = Buffer.alloc(0), secret = `Bearer ${key}` } = asked;
  if (route.startsWith("/nothing/")) return Buffer.from(`GET ${route} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  const headers = [...mutator.some(HEADERS, random() < 0.5 ? 0 : 4), ...(asked.headers ?? [])];
  if (random() < 0.9) headers.push(`authorization: ${random() < 0.9 ? secret : "Bearer svc_x"}`);
  if (random() < 0.8) headers.push("host: localhost");
  if (random() < 0.8) headers.push("content-type: application/json");
  if (body.length > 0 && random() < 0.9) headers.push(`content-length: ${body.length}`);
  if (isLast) headers.push("connection: close");
  const head = Buffer.from(`${method} ${route} HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`);
  return Buffer.concat([random() < 0.9 ? head : mutator.bytes(head, TOKENS, 2), body]);
}

/** Short JSON, broken now and then. */
function bodyOf(mutator: Mutator, value: unknown): Buffer {
  const bytes = Buffer.from(JSON.stringify(value) ?? "null");
  return mutator.random() < 0.8 ? bytes : mutator.bytes(bytes, TOKENS);
}

function methodOf(mutator: Mutator): string {
  return mutator.random() < 0.5 ? "POST" : mutator.pick(METHODS);
}

function graphql(mutator: Mutator): Asked {
  const query = mutator.bytes(Buffer.from(mutator.pick(DOCUMENTS)), TOKENS, 3).toString("utf8");
  return { method: "POST", route: "/graphql", body: bodyOf(mutator, { query, variables: mutator.json() }) };
}

function jobOrRoute(mutator: Mutator, { urls }: Target): Asked {
  // What is queued for `puller` would be given to this test, which does nothing with it.
  const { puller: _, ...others } = urls;
  const value = mutator.random() < 0.5 ? { input: mutator.json() } : mutator.json();
  const route = `${mutator.pick(Object.values(others))}/${mutator.pick(ROUTES)}`;
  return { method: methodOf(mutator), route, body: bodyOf(mutator, value) };
}

function other(mutator: Mutator): Asked {
  return { method: methodOf(mutator), route: mutator.pick(OTHERS), body: bodyOf(mutator, mutator.json()) };
}

/** Its answer names it, so that the order of answers can be seen. */
function tagged(): Asked {
  return { method: "GET", route: "/nothing/TAG" };
}

function upload(mutator: Mutator): Asked {
  const { pick, random } = { pick: <T>(values: readonly T[]) => mutator.pick(values), random: mutator.random };
  const body = Buffer.from(pick(["", "no layer", "a".repeat(5_000)]));
  const digest = createHash("sha256").update(body).digest("hex");
  const offset = pick(["0", "3", `${body.length}`, "99999999999999", "-1", "x", "1, 2"]);
  const complete = pick(["?1", "?0", "1"]);
  const named = random() < 0.5 ? [`upload-offset: ${offset}`, `upload-complete: ${complete}`] : [];
  const ranges =
    random() < 0.3 ? [`content-range: bytes ${offset}-${pick(["9", "x", "0"])}/${pick(["10", "*", "-1"])}`] : [];
  const sent = random() < 0.5 ? body : body.subarray(mutator.below(body.length + 1));
  return {
    method: pick(["PUT", "PUT", "PATCH", "PATCH", "HEAD", "GET"]),
    route: `/layers/${random() < 0.9 ? digest : digest.slice(1)}`,
    headers: [...named, ...ranges],
    body: sent,
  };
}

/** Files of the volume "files", in parts, whole and as they were not meant. */
function volume(mutator: Mutator): Asked {
  const body = Buffer.from(mutator.pick(["", "a file", "a".repeat(20_000)]));
  const uuid = `0f8fad5b-d9cb-469f-a165-7086772895${10 + mutator.below(20)}`;
  const upload = mutator.pick(["", `?upload=${uuid}`, `?upload=${uuid}`, "?upload=x"]);
  const name = mutator.pick(["one", "two", "a/b/one", "a", "", "..", "a%00", "%2e%2e/x", "a".repeat(300)]);
  const headers = [`upload-offset: ${mutator.pick(["0", "6", "x", "99999999999999"])}`, "upload-complete: ?0"];
  return {
    method: mutator.pick(["PUT", "PUT", "PUT", "GET", "DELETE", "PATCH"]),
    route: `/volumes/campaign/production/files/${mutator.pick(["files", "files", "entries", "uploads"])}/${name}${upload}`,
    headers: mutator.some(headers, 2),
    body,
  };
}

function openai(mutator: Mutator, { urls }: Target): Asked {
  const route = mutator.pick(["models", "chat/completions", "completions", "embeddings", "x"]);
  const messages = [{ role: "user", content: mutator.json() }];
  const body = bodyOf(mutator, { messages, stream: mutator.random() < 0.5, extra: mutator.json() });
  const method = route === "models" ? "GET" : methodOf(mutator);
  return { method, route: `${urls.chat}/openai/v1/${route}`, body: method === "GET" ? Buffer.alloc(0) : body };
}

function pulled(mutator: Mutator, { urls, worker }: Target): Asked {
  const job = mutator.pick(["x", "%zz", "..", "a".repeat(300)]);
  const [method, route, isHeld] = mutator.pick([
    ["GET", "job-take/W?job_in_progress=1", true],
    ["GET", "job-take-batch/W?batch_size=-1", false],
    ["GET", "job-take-batch/W?batch_size=999999&job_in_progress=1", true],
    ["GET", "job-stop/W", true],
    ["GET", `ping/W?job_id=${job},,`, false],
    ["POST", `job-stream/W/${job}`, false],
    ["POST", `job-done/W/${job}?isStream=false`, false],
    ["PUT", "job-take/W", false],
    ["GET", "job-take/other", true],
  ] as const);
  const body = method === "GET" ? undefined : bodyOf(mutator, { output: mutator.json(), error: mutator.json() });
  return { method, route: `${urls.puller}/${route.replace("W", worker.id)}`, body, secret: worker.token, isHeld };
}

/** Answers that take their time and their room. */
function stream(mutator: Mutator, { urls }: Target): Asked {
  const route = mutator.pick([
    `${urls.web}/stream`,
    `${urls.edge}/large`,
    `${urls.edge}/echo`,
    `/logs?follow=1`,
    "/events",
  ]);
  if (!route.endsWith("/echo")) return { method: "GET", route, follows: /^\/(logs|events)/.test(route) };
  const body = Buffer.alloc(mutator.pick([10, 70_000, 300_000]), "x");
  return { method: "POST", route, body };
}

function socket(mutator: Mutator, { urls }: Target): Asked {
  const frames = mutator.bytes(Buffer.from("\u0081\u0085\u0001\u0002\u0003\u0004hello", "latin1"), TOKENS, 3);
  return {
    method: "GET",
    route: `${mutator.pick([`${urls.edge}`, `${urls.web}`, `${urls.work}`])}/talk`,
    headers: [
      "connection: upgrade",
      "upgrade: websocket",
      "sec-websocket-version: 13",
      "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ],
    body: mutator.random() < 0.5 ? frames : Buffer.alloc(0),
  };
}
