/**
 * Requests that no client of ours would send, over raw connections: routes × methods × headers × bodies, several in one
 * connection, framed in ways that invite smuggling, and GraphQL documents. Every connection must end with answers or be closed,
 * and no answer may be a 500.
 */
import { connect } from "node:net";
import type { Subject } from "../subject.ts";
import type { Mutator } from "./mutate.ts";

export interface Target {
  readonly subject: Subject;
  /** Paths of endpoints. */
  readonly paths: readonly string[];
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
const ANSWER_MAX_MS = 30_000;

/** The bytes of one connection, and how many requests they hold. */
export function conversation(mutator: Mutator, { subject, paths }: Target): { bytes: Buffer; requests: number } {
  const requests = 1 + mutator.below(PER_CONNECTION_MAX);
  const parts = Array.from({ length: requests }, (_, n) => request(mutator, subject.key, paths, n === requests - 1));
  return { bytes: Buffer.concat(parts), requests };
}

function request(mutator: Mutator, key: string, paths: readonly string[], last: boolean): Buffer {
  const { pick, random, some } = bound(mutator);
  const graphql = random() < 0.25;
  const route = graphql ? "/graphql" : random() < 0.3 ? pick(OTHERS) : `${pick(paths)}/${pick(ROUTES)}`;
  const document = mutator.bytes(Buffer.from(pick(DOCUMENTS)), TOKENS, 3).toString("utf8");
  const value = graphql
    ? { query: document, variables: mutator.json() }
    : random() < 0.5
      ? { input: mutator.json() }
      : mutator.json();
  const body =
    random() < 0.8 ? Buffer.from(JSON.stringify(value)) : mutator.bytes(Buffer.from(JSON.stringify(value)), TOKENS);
  const headers = some(HEADERS, random() < 0.5 ? 0 : 4);
  if (random() < 0.9) headers.push(`authorization: Bearer ${random() < 0.9 ? key : "svc_x"}`);
  if (random() < 0.8) headers.push("host: localhost");
  if (random() < 0.8) headers.push("content-type: application/json");
  if (random() < 0.85) headers.push(`content-length: ${body.length}`);
  if (last) headers.push("connection: close");
  const method = graphql || random() < 0.5 ? "POST" : pick(METHODS);
  const head = Buffer.from(`${method} ${route} HTTP/1.1\r\n${headers.join("\r\n")}\r\n\r\n`);
  return Buffer.concat([random() < 0.9 ? head : mutator.bytes(head, TOKENS, 2), body]);
}

function bound(mutator: Mutator) {
  return { pick: mutator.pick.bind(mutator), random: mutator.random, some: mutator.some.bind(mutator) };
}

/** Sends it and waits for the connection's end. Resolves what is wrong with the answer, if anything is. */
export function talk(bytes: Buffer, { subject }: Target): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port: Number(new URL(subject.url).port), host: "127.0.0.1", allowHalfOpen: true });
    let text = "";
    const late = setTimeout(() => done(`hangs; so far: ${text.slice(-200)}`), ANSWER_MAX_MS);
    const done = (wrong?: string) => {
      clearTimeout(late);
      socket.destroy();
      resolve(wrong);
    };
    socket.on("data", (chunk) => {
      // The head of an answer that matters fits in what is kept.
      text = (text + chunk.toString("latin1")).slice(-100_000);
    });
    socket.on("error", (error: NodeJS.ErrnoException) =>
      done(error.code === "ECONNREFUSED" ? "nothing listens" : undefined),
    );
    socket.on("close", () => {
      const at = text.search(/HTTP\/1\.1 500 /);
      done(at < 0 ? undefined : text.slice(at, at + 600));
    });
    // An upgrade stays open for both; here nobody speaks on it.
    socket.on("end", () => socket.end());
    socket.end(bytes);
  });
}
