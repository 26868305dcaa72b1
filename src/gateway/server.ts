/** The platform's one HTTP server: job routes, load-balanced endpoints, and a fallback for everything else. */
import { randomBytes } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { cannotListen } from "../domain/cannot-listen.ts";
import { admitPage } from "../domain/console-session.ts";
import { SvcError } from "../domain/errors.ts";
import {
  ANSWERS_HELD_MAX_BYTES,
  ARRIVAL_CHECK_MS,
  BODIES_IN_FLIGHT_MAX_BYTES,
  CLOSE_LAST_ANSWERS_MS,
  CLOSE_SWEEP_MS,
  CONNECTION_END_MAX_MS,
  HEADERS_ARRIVE_MAX_MS,
  KEEP_ALIVE_MS,
  OWNER_KEY_BYTES,
  REQUEST_ARRIVE_MAX_MS,
} from "../domain/limits.ts";
import { ClientAddress } from "../lib/client-address.ts";
import { endConnection } from "../lib/end-connection.ts";
import { type ClientSocket, createServer } from "../lib/http.ts";
import { BodyBudget } from "./body.ts";
import { CallerWatch } from "./caller.ts";
import { type Arrival, type GatewayContext, type GatewayDeps, RETENTION_DEFAULT } from "./context.ts";
import { JobOwners } from "./job-owner.ts";
import { LargeAnswers } from "./large-answers.ts";
import { OpenCalls } from "./open-calls.ts";
import { PeerCalls } from "./peer-calls.ts";
import { answer } from "./pipeline.ts";
import { PrivateCalls } from "./private-calls.ts";
import { PublicRate } from "./public-rate.ts";
import { answerPull, findPull } from "./pull-routes.ts";
import { RateLimiter } from "./rate-limits.ts";
import { rawError, sendError } from "./respond.ts";
import { findTarget } from "./target.ts";
import { upgrade } from "./upgrade.ts";

const ARRIVAL_DEFAULT: Arrival = {
  headersMs: HEADERS_ARRIVE_MAX_MS,
  requestMs: REQUEST_ARRIVE_MAX_MS,
  checkMs: ARRIVAL_CHECK_MS,
};

const NO_SECRET = Buffer.alloc(0);

export interface Gateway {
  readonly server: Server;
  /** Port 0: any free one; `shared`: other processes of this user may listen there too. Throws PORT_IN_USE. */
  listen(host: string, port: number, shared?: boolean): Promise<{ readonly port: number }>;
  /** Other processes listen in its place from now on: the connections that are here stay. */
  stopListening(): void;
  /** Answers what gateway processes pass on, whose connections begin with the secret. */
  listenPrivately(socketPath: string, secret: Uint8Array): Promise<void>;
  /** The same of one connection whose other end has proved itself; what is said of the caller comes first. */
  acceptPrivately(socket: Socket): void;
  /**
   * Stops accepting and answers what runs; a further request on a connection gets SHUTTING_DOWN. After `graceMs` those
   * who still wait for a job are answered with it as it is (it goes on), and what is left is closed.
   */
  close(graceMs: number): Promise<void>;
  /** Closes the connections that wait for nothing: their descriptors are needed. */
  closeUnused(): void;
  readonly context: GatewayContext;
}

export function createGateway(deps: GatewayDeps): Gateway {
  const { settings, monotonic = () => performance.now() } = deps;
  const publicRate = deps.publicRate ?? new PublicRate(settings.publicCallsMax ?? 0, monotonic);
  const addresses = new ClientAddress(settings.trustedProxies ?? []);
  const callers = new CallerWatch();
  const context: GatewayContext = {
    ...deps,
    retention: settings.retention ?? RETENTION_DEFAULT,
    rates: deps.rates ?? (settings.rateLimits && new RateLimiter(settings.rateLimits, monotonic)),
    publicRate,
    open: new OpenCalls({ ...deps, publicRate, addresses }),
    addresses,
    bodies: new BodyBudget(BODIES_IN_FLIGHT_MAX_BYTES, monotonic),
    answers: new LargeAnswers(settings.answersMaxBytes ?? ANSWERS_HELD_MAX_BYTES, monotonic, callers),
    lookers: new CallerWatch(),
    callers,
    peers: deps.peers ?? new PeerCalls(),
    owners: new JobOwners(deps.ownerKeys ?? [randomBytes(OWNER_KEY_BYTES)]),
    closing: false,
    passedOn: new WeakSet(),
  };
  const arrival = settings.arrival ?? ARRIVAL_DEFAULT;
  const server = createServer(
    {
      headersTimeout: arrival.headersMs,
      requestTimeout: arrival.requestMs,
      connectionsCheckingInterval: arrival.checkMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      noDelay: true,
      requireHostHeader: false, // node:http refuses in a way of its own, without a body
      shouldUpgradeCallback: (req) => req.headers.upgrade?.toLowerCase() === "websocket",
    },
    {
      onRequest: (req, res) => dispatch(req, res, context),
      onUpgrade: (req, socket, head) =>
        upgrade(req, socket, head, context).catch((error) => context.log.error("an upgrade failed", { error })),
      onAnswerError: (error) => context.log.error("an answer was not written as it should be", { error }),
    },
  );
  const connections = new Set<Socket>();
  // A caller that closed its sending side is answered; caller.ts tells it from one that is gone.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  // Expect: 100-continue is answered where the body is read, so a refused caller never sends it.
  const onExpect = (req: IncomingMessage, res: ServerResponse) => server.emit("request", req, res);
  server.on("checkContinue", onExpect);
  server.on("checkExpectation", onExpect);
  server.on("clientError", refuseConnection);
  server.on("error", (error) => {
    if (server.listening) deps.acceptFailed?.(error);
  });
  server.maxConnections = settings.connectionsMax ?? Number.POSITIVE_INFINITY;
  server.on("drop", () => closeUnused(server, connections));
  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    socket.setMaxListeners(0); // one for each call that waits on the connection
    socket.once("end", () => endUnused(socket));
    socket.once("close", () => connections.delete(socket));
  });
  const privateCalls = new PrivateCalls((socket) => {
    context.passedOn.add(socket);
    server.emit("connection", socket);
  });
  let closed: Promise<unknown> | undefined;
  return {
    server,
    context,
    listen: (host, port, shared = false) => listen(server, host, port, shared),
    stopListening() {
      // That of node:http would end idle connections, too.
      NetServer.prototype.close.call(server);
    },
    async listenPrivately(socketPath, secret) {
      await privateCalls.listen(socketPath, secret);
      // From then on node:http looks after connections: slow ones, idle ones.
      server.emit("listening");
    },
    acceptPrivately: (socket) => privateCalls.greet(socket, NO_SECRET),
    closeUnused: () => closeUnused(server, connections),
    close: (graceMs) => {
      // Called again while it closes, it shortens the grace.
      closed ??= Promise.all([new Promise<void>((resolve) => server.close(() => resolve())), privateCalls.close()]);
      return close(server, connections, context, graceMs, { closed, cut: () => privateCalls.cut() });
    },
  };
}

function dispatch(req: IncomingMessage, res: ServerResponse, context: GatewayContext): void {
  if (req.httpVersionMajor !== 1) {
    endConnection(req.socket, CONNECTION_END_MAX_MS, rawError(connectionError(undefined)));
    return;
  }
  if (req.headers.host === undefined && req.httpVersion === "1.1") {
    const error = new SvcError("BAD_INPUT", "A request in HTTP/1.1 names its host: the header Host is missing.");
    sendError(req, res, error, { closing: true });
    return;
  }
  const pulled = context.pull && findPull(req.url ?? "/");
  if (pulled !== undefined && context.pull !== undefined && context.pull !== "elsewhere") {
    answerPull(req, res, pulled, context.pull, context).catch((error) =>
      context.log.error("a worker was not answered", { error }),
    );
    return;
  }
  admitPage(req);
  const target = pulled === undefined ? findTarget(req, context.settings.domain) : undefined;
  if (target !== undefined) {
    answer(req, res, target, context).catch((error) => context.log.error("a call was not answered", { error }));
    return;
  }
  try {
    if (context.closing) {
      // What another platform passed on was asked of the one that this was just now: the next one answers.
      if (!context.passedOn.has(req.socket)) throw new SvcError("SHUTTING_DOWN", "The platform is shutting down.");
      res.shouldKeepAlive = false;
    }
    if (req.headers.expect?.toLowerCase() === "100-continue") res.writeContinue();
    context.fallback(req, res);
  } catch (error) {
    if (!(error instanceof SvcError)) context.log.error("a request failed", { method: req.method, error });
    sendError(req, res, error, { closing: context.closing });
  }
}

/** Half-open connections stay for those who wait for an answer only; node:http itself ends them behind the answer. */
function endUnused(socket: ClientSocket): void {
  const res = socket._httpMessage;
  if (!res) socket.end();
  // The rest of its body never comes. node:http says so itself, but not of a request with "Upgrade" that is taken as an ordinary one.
  else if (!res.req.complete && socket.writable) refuseConnection(new Error("cut off"), socket);
}

/**
 * What never became a request: broken HTTP, headers without end, a sender that is too slow. Behind a request that waits for its own answer
 * the connection is closed: these words would be taken for that answer.
 */
function refuseConnection(error: NodeJS.ErrnoException, socket: ClientSocket): void {
  const res = socket._httpMessage;
  const isAnothers = res?.headersSent === true || res?.req.complete === true;
  if (!socket.writable || isAnothers || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  socket.end(rawError(connectionError(error.code)), () => socket.destroy());
}

function connectionError(code: string | undefined): SvcError {
  if (code === "HPE_HEADER_OVERFLOW") return new SvcError("HEADERS_TOO_LARGE", "The headers are larger than 16 KiB.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new SvcError("SLOW_REQUEST", "The request took too long to arrive.");
  return new SvcError("BAD_INPUT", "This is not an HTTP/1.1 request.");
}

function listen(server: Server, host: string, port: number, shared: boolean): Promise<{ port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(cannotListen(error, host, port));
    server.once("error", onError);
    server.listen({ port, host, backlog: 4096, reusePort: shared }, () => {
      server.off("error", onError);
      resolve({ port: (server.address() as AddressInfo).port });
    });
  });
}

async function close(
  server: Server,
  connections: ReadonlySet<Socket>,
  context: GatewayContext,
  graceMs: number,
  others: { readonly closed: Promise<unknown>; cut(): void },
): Promise<void> {
  context.closing = true;
  context.lookers.endAll();
  const closeIdle = () => closeUnused(server, connections);
  closeIdle();
  const sweep = setInterval(closeIdle, CLOSE_SWEEP_MS);
  const grace = setTimeout(() => context.callers.endAll(), graceMs);
  const end = setTimeout(() => {
    for (const socket of connections) socket.destroy();
    others.cut();
  }, graceMs + CLOSE_LAST_ANSWERS_MS);
  await others.closed;
  // Those of other platforms the server does not count.
  for (const socket of connections) await new Promise((resolve) => socket.once("close", resolve));
  clearInterval(sweep);
  clearTimeout(grace);
  clearTimeout(end);
}

function closeUnused(server: Server, connections: ReadonlySet<Socket>): void {
  server.closeIdleConnections(); // after an answer
  for (const socket of connections) if (socket.bytesRead === 0) socket.destroy(); // before any request
}
