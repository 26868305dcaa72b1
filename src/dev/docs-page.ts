/**
 * `GET /docs`: the interactive explorer. Swagger UI and our own files beside it, from the installed packages; nothing
 * comes from elsewhere, and the page may load and call nothing else.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import type { CallLines } from "./call-logs.ts";
import { sendError } from "./calls.ts";
import { refusalOf } from "./guard.ts";
import type { OpenApiDocument } from "./openapi.ts";

export interface DocsChange {
  /** Why the newest code does not answer, with its place; undefined: the document is that of the newest code. */
  readonly problem?: string;
}

interface DocsPageOptions {
  /** The document of the code that answers now; asked for each time. */
  readonly document: () => OpenApiDocument;
  /** Tells of changes until the returned function is called. Open pages show them. */
  readonly onChange?: (listener: (change: DocsChange) => void) => () => void;
  /** The change that was told last: a page that opens now is told of its problem. */
  readonly newest?: () => DocsChange;
  /** What the call printed to which its page gave this id. */
  readonly callLines?: (id: string) => Promise<CallLines>;
  /** Callers have to send a token: code that the page gives out says where it stands. */
  readonly asksForToken?: boolean;
  /** Ends the connections of open pages. */
  readonly signal?: AbortSignal;
}

/** Answers `/docs` and what belongs to it and returns true; leaves every other request alone and returns false. */
type DocsPage = (request: IncomingMessage, response: ServerResponse) => boolean;

/** The usual place too: no worker file answers there, because no module's name has a dot in it. */
const DOCUMENT_PATHS = ["/docs/openapi.json", "/openapi.json"];
const CALL_PATH = /^\/docs\/calls\/[0-9a-f]{32}$/;

export function docsPage(options: DocsPageOptions): DocsPage {
  const assets = new Assets();
  return (request, response) => {
    const { method } = request;
    if (method !== "GET" && method !== "HEAD") return false;
    const [path = "", query = ""] = (request.url ?? "").split("?", 2);
    if (path === "/docs" || path === "/docs/") send(request, response, page(assets, options.asksForToken === true));
    else if (DOCUMENT_PATHS.includes(path)) send(request, response, json(options.document()));
    else if (path === "/docs/changes") stream(request, response, options);
    else if (method === "GET" && CALL_PATH.test(path)) sendLines(response, path.slice("/docs/calls/".length), options);
    else {
      const asset = assets.find(path.slice("/docs/".length));
      if (!path.startsWith("/docs/") || asset === undefined) return false;
      send(request, response, asset, query === `v=${asset.digest}`);
    }
    return true;
  };
}

interface Content {
  readonly type: string;
  readonly body: Buffer;
  readonly digest: string;
}

function contentOf(type: string, body: Buffer): Content {
  return { type, body, digest: createHash("sha256").update(body).digest("hex").slice(0, 16) };
}

/** All files of the page by the name they are asked for: no other name reaches the disk. */
const FILES: Readonly<Record<string, { readonly from: "swagger-ui-dist" | "explorer"; readonly type: string }>> = {
  "swagger-ui.css": { from: "swagger-ui-dist", type: "text/css; charset=utf-8" },
  "swagger-ui-bundle.js": { from: "swagger-ui-dist", type: "text/javascript; charset=utf-8" },
  "answer.css": { from: "explorer", type: "text/css; charset=utf-8" },
  "explorer.css": { from: "explorer", type: "text/css; charset=utf-8" },
  "inputs.css": { from: "explorer", type: "text/css; charset=utf-8" },
  "main.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "calls.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "answer.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "code-examples.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "header.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "history.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "repeat.js": { from: "explorer", type: "text/javascript; charset=utf-8" },
  "header.css": { from: "explorer", type: "text/css; charset=utf-8" },
  "icon.svg": { from: "explorer", type: "image/svg+xml" },
};

/** Read once, when they are first asked for. */
class Assets {
  readonly #read = new Map<string, Content>();

  find(name: string): Content | undefined {
    if (!Object.hasOwn(FILES, name)) return undefined;
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    const { from, type } = FILES[name]!;
    const content = contentOf(type, from === "explorer" ? readFileSync(ownFile(name)) : swaggerFile(name));
    this.#read.set(name, content);
    return content;
  }

  /** The address under which it may be kept for ever. */
  address(name: string): string {
    return `/docs/${name}?v=${this.find(name)!.digest}`;
  }
}

/** Browser code, which stays in src/ when the rest runs from dist/. */
function ownFile(name: string): URL {
  const beside = new URL(`./explorer/${name}`, import.meta.url);
  return existsSync(beside) ? beside : new URL(`../../../src/dev/explorer/${name}`, import.meta.url);
}

/** An installed svc carries the two files, packed (packaging/package.ts); a clone has the package they are from. */
function swaggerFile(name: string): Buffer {
  const carried = new URL(`../../swagger-ui/${name}.br`, import.meta.url);
  if (existsSync(carried)) return brotliDecompressSync(readFileSync(carried));
  return readFileSync(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`)));
}

function page(assets: Assets, asksForToken: boolean): Content {
  const html = `<!doctype html>
<html lang="en"${asksForToken ? " data-asks-for-token" : ""}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>svc run</title>
<link rel="icon" href="${assets.address("icon.svg")}">
<link rel="preload" as="style" href="/docs/swagger-ui.css">
<link rel="stylesheet" href="${assets.address("explorer.css")}">
<link rel="stylesheet" href="${assets.address("header.css")}">
<link rel="stylesheet" href="${assets.address("inputs.css")}">
<link rel="stylesheet" href="${assets.address("answer.css")}">
</head>
<body>
<div id="notice" role="status" hidden></div>
<div id="explorer"></div>
<noscript>The explorer needs JavaScript. Its document: <a href="/docs/openapi.json">openapi.json</a></noscript>
<script src="${assets.address("swagger-ui-bundle.js")}"></script>
<script type="module" src="/docs/main.js"></script>
</body>
</html>
`;
  return contentOf("text/html; charset=utf-8", Buffer.from(html));
}

function json(document: OpenApiDocument): Content {
  return contentOf("application/json", Buffer.from(JSON.stringify(document)));
}

const SECURITY_HEADERS = {
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "media-src blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

function send(request: IncomingMessage, response: ServerResponse, content: Content, forEver = false): void {
  const etag = `"${content.digest}"`;
  response.setHeaders(new Map(Object.entries(SECURITY_HEADERS)));
  response.setHeader("ETag", etag);
  response.setHeader("Cache-Control", forEver ? "max-age=31536000, immutable" : "no-cache");
  if (request.headers["if-none-match"] === etag) {
    response.writeHead(304).end();
    return;
  }
  response.writeHead(200, { "Content-Type": content.type, "Content-Length": content.body.length });
  response.end(request.method === "HEAD" ? undefined : content.body);
}

function sendLines(response: ServerResponse, id: string, { callLines }: DocsPageOptions): void {
  response.setHeaders(new Map(Object.entries(SECURITY_HEADERS)));
  const answered = async () => {
    const text = JSON.stringify((await callLines?.(id)) ?? { lines: [], cut: false });
    response.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "no-store" }).end(text);
  };
  answered().catch(() => response.destroy());
}

/** Server-sent events: one for each change of the code, at first the problem that there is. */
function stream(request: IncomingMessage, response: ServerResponse, options: DocsPageOptions): void {
  const { onChange, newest, signal } = options;
  response.setHeaders(new Map(Object.entries(SECURITY_HEADERS)));
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  if (request.method === "HEAD") {
    response.end();
    return;
  }
  response.write(": open\n\n");
  const tell = (change: DocsChange) => {
    if (!response.writableEnded) response.write(`data: ${JSON.stringify(change)}\n\n`);
  };
  const first = newest?.();
  if (first?.problem !== undefined) tell(first);
  const unsubscribe = onChange?.(tell);
  const end = () => response.end();
  signal?.addEventListener("abort", end, { once: true });
  response.on("close", () => {
    unsubscribe?.();
    signal?.removeEventListener("abort", end);
  });
}

/** `GET /` and the explorer. False: the request is a call. */
export function answerOwnPage(req: IncomingMessage, res: ServerResponse, host: string, docs: DocsPage): boolean {
  const path = (req.url ?? "/").split("?", 1)[0]!;
  const isHealth = path === "/" && (req.method === "GET" || req.method === "HEAD");
  const own = isHealth || path === "/docs" || path.startsWith("/docs/") || path === "/openapi.json";
  if (!own) return false;
  const refusal = refusalOf({ method: req.method, url: req.url, headers: req.headers }, { host });
  if (refusal !== undefined) {
    sendError(res, new SvcError("FORBIDDEN", refusal.message, { help: refusal.help }));
    return true;
  }
  if (!isHealth) return docs(req, res);
  const text = JSON.stringify({ status: "ok", service: "svc run", version: VERSION, docs: "/docs" });
  res.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
  res.end(req.method === "HEAD" ? undefined : text);
  return true;
}
