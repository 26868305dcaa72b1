/**
 * WebSocket calls of load-balanced endpoints. The worker speaks the protocol; after its 101 the gateway passes the
 * bytes of the connection through, both ways and no faster than they are taken.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SvcError } from "../domain/errors.ts";
import { CONNECTION_END_MAX_MS } from "../domain/limits.ts";
import type { EndedRequest, LoadBalancedResponse } from "../domain/request.ts";
import { endConnection } from "../lib/end-connection.ts";
import { plainAnswer } from "../lib/proxy.ts";
import { checkSource } from "./check-source.ts";
import type { GatewayContext } from "./context.ts";
import { forwardedHeaders, responseHeaders } from "./forwarded-headers.ts";
import { CALL } from "./job-route.ts";
import { admit } from "./pipeline.ts";
import { endWith, sendError } from "./respond.ts";
import { findTarget } from "./target.ts";

/** Answers the call, whatever happens; never rejects. */
export async function upgrade(
  req: IncomingMessage,
  socket: Socket,
  head: Buffer,
  gateway: GatewayContext,
): Promise<void> {
  socket.on("error", () => socket.destroy());
  const departure = gateway.callers.followSocket(socket);
  const body = new PassThrough();
  let leave = () => {};
  let ended: Pick<EndedRequest, "endpoint" | "served" | "path"> | undefined;
  let status = 499;
  const startedAt = performance.now();
  try {
    if (gateway.closing) throw new SvcError("SHUTTING_DOWN", "The platform is shutting down.");
    const target = findTarget(req, gateway.settings.domain);
    if (target?.kind !== "load-balanced") throw new SvcError("NOT_FOUND", "There is no WebSocket route here.");
    const { endpoint, secret, principal, open } = await admit(req, target, gateway, CALL, "WEBSOCKET");
    if (principal.kind === "worker") leave = gateway.peers.enter(endpoint.id);
    if (open === undefined) await checkSource(req, endpoint, gateway);
    const id = gateway.newId();
    ended = { endpoint, path: target.path, served: undefined };
    const response = await gateway.forwarder.forward({
      id,
      endpointId: endpoint.id,
      method: "WEBSOCKET",
      path: target.path,
      query: open?.signedQuery ?? target.query,
      headers: forwardedHeaders(req.rawHeaders, open === undefined ? secret : undefined, gateway.addresses.chain(req)),
      body,
      timeoutMs: endpoint.requestTimeoutMs || gateway.settings.requestTimeoutMs,
      publicRoutes: open?.publicRoutes,
      departure,
    });
    const { workerId, timing } = response;
    ended = { ...ended, served: { id, workerId, timing } };
    status = response.status;
    if (response.status !== 101 || Buffer.isBuffer(response.body)) refuse(req, socket, response);
    else await passThrough(socket, head, body, response, response.body);
  } catch (error) {
    if (!(error instanceof SvcError)) gateway.log.error("an upgrade failed", { error });
    const answer = plainAnswer(req, socket, CONNECTION_END_MAX_MS);
    sendError(req, answer, error, { closing: true, forOpenAi: true });
    status = answer.statusCode;
  } finally {
    leave();
    body.destroy();
    const totalMs = performance.now() - startedAt;
    if (ended !== undefined) gateway.requestEnded?.({ ...ended, method: "WEBSOCKET", status, totalMs });
  }
}

async function passThrough(
  socket: Socket,
  head: Buffer,
  body: PassThrough,
  response: LoadBalancedResponse,
  answer: Readable,
): Promise<void> {
  const flat = responseHeaders({ ...response, status: 200 }, false, false);
  const lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"];
  for (let i = 0; i < flat.length; i += 2) {
    // Of a body, and there is none.
    if (!/^content-(type|length)$/i.test(flat[i]!)) lines.push(`${flat[i]}: ${flat[i + 1]}`);
  }
  socket.write(`${lines.join("\r\n")}\r\n\r\n`, "latin1");
  if (head.length > 0) body.write(head);
  socket.pipe(body);
  try {
    await pipeline(answer, socket);
    endConnection(socket, CONNECTION_END_MAX_MS);
  } catch {
    socket.destroy();
  }
}

function refuse(req: IncomingMessage, socket: Socket, response: LoadBalancedResponse): void {
  const { body } = response;
  if (!Buffer.isBuffer(body)) {
    body.destroy();
    throw new SvcError("BAD_RESPONSE", "The worker answered an upgrade with a stream.");
  }
  const headers = responseHeaders(response, false, false);
  // What throws comes before: a connection has one answer.
  const res = plainAnswer(req, socket, CONNECTION_END_MAX_MS);
  res.writeHead(response.status, headers);
  endWith(res, body);
}
