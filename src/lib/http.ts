/**
 * What svc uses of node:http, without fetch: a module that is imported shows all that it exports, and node:http exports parts of
 * fetch, which it then loads (five times the processor time of what is here).
 */
import type { IncomingMessage, RequestListener, ServerResponse as Response, Server, ServerOptions } from "node:http";
import type { Socket } from "node:net";

const http = process.getBuiltinModule("node:http");

export const { Agent, request, validateHeaderName, validateHeaderValue } = http;

/**
 * An answer that has its connection when its turn comes. node:http hands the connection on from answer to answer, but not past
 * one that ends it ("Connection: close"): the next request that arrives then gets it ahead of those that wait, and where such
 * an answer finishes, an assertion of node:http ends the process. So a connection that takes no more is given to nobody: the
 * answer counts as closed. Nor does it go on behind an answer that was cut while it waited.
 */
export class ServerResponse extends http.ServerResponse {
  override assignSocket(socket: Socket): void {
    if (socket.writable && !this.destroyed) {
      super.assignSocket(socket);
      return;
    }
    this.destroy();
    socket.destroySoon();
  }
}

/** node:http keeps the answer that is being sent there. */
export type ClientSocket = Socket & { _httpMessage?: Response | null };

interface Handlers {
  readonly onRequest: RequestListener;
  readonly onUpgrade: (req: IncomingMessage, socket: Socket, head: Buffer) => void;
  /** A mistake of ours, as of one who writes behind an answer's end: the answer is cut. Without a listener the process would end. */
  readonly onAnswerError?: (error: Error) => void;
}

/** Neither runs what comes behind a connection's last answer, nor upgrades a connection whose answers are still due. */
export function createServer(
  options: ServerOptions<typeof IncomingMessage, typeof ServerResponse>,
  { onRequest, onUpgrade, onAnswerError = () => {} }: Handlers,
): Server {
  const waiting = new Waiting();
  function cut(this: Response, error: Error): void {
    this.destroy();
    onAnswerError(error);
  }
  const server = http.createServer({ ...options, ServerResponse }, (req, res) => {
    if (res.destroyed) return;
    res.on("error", cut);
    if (res.socket === null) waiting.add(req.socket, res);
    onRequest(req, res);
  });
  server.on("upgrade", (req, socket: ClientSocket, head) => {
    if (socket._httpMessage || !socket.writable) waiting.cut(socket);
    else onUpgrade(req, socket, head);
  });
  server.on("connect", (_req, socket) => waiting.cut(socket as Socket));
  return server;
}

/** Answers whose turn has not come. node:http forgets them when a connection is to become another protocol's. */
class Waiting {
  readonly #answers = new WeakMap<Socket, Set<Response>>();

  add(socket: Socket, res: Response): void {
    const answers = this.#answers.get(socket) ?? new Set();
    this.#answers.set(socket, answers.add(res));
    const over = () => answers.delete(res);
    res.once("socket", over).once("close", over);
  }

  cut(socket: Socket): void {
    socket.destroy();
    for (const res of this.#answers.get(socket) ?? []) res.destroy();
  }
}
