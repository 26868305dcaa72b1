import type { IncomingMessage, ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import { sendError } from "./calls.ts";
import type { DocsPage } from "./docs-page.ts";
import { refusalOf } from "./guard.ts";

/** `GET /` and the explorer. False: the request is a call. */
export function answerOwnPage(req: IncomingMessage, res: ServerResponse, host: string, docs: DocsPage): boolean {
  const path = (req.url ?? "/").split("?", 1)[0]!;
  const isHealth = path === "/" && (req.method === "GET" || req.method === "HEAD");
  const own = isHealth || path === "/docs" || path.startsWith("/docs/");
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
