/** A WebSocket call: the handshake goes to the platform, and from its 101 on the bytes of the connection pass both ways. */
import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { answerHeaders, type Outgoing, type PassThrough } from "./pass-through.ts";

export type Upgraded =
  | { readonly outcome: "answered"; readonly status: number }
  | { readonly outcome: "outdated" | "gone" };

/** Resolves when the connection is made or refused; rejects with the error of the connection to the platform. */
export function passUpgrade(
  through: PassThrough,
  req: IncomingMessage,
  socket: Socket,
  head: Buffer,
  outgoing: Outgoing,
): Promise<Upgraded> {
  return new Promise((resolve, reject) => {
    const upstream = through.open("GET", req, outgoing, ["Connection", "Upgrade", "Upgrade", "websocket"]);
    socket.once("close", () => upstream.destroy());
    upstream.once("error", reject);
    upstream.once("upgrade", (answer, platformSide: Socket, platformHead) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines(answer.rawHeaders)}\r\n\r\n`, "latin1");
      if (platformHead.length > 0) socket.write(platformHead);
      if (head.length > 0) platformSide.write(head);
      platformSide.on("error", () => socket.destroy()).once("close", () => socket.destroy());
      socket.on("error", () => platformSide.destroy()).once("close", () => platformSide.destroy());
      socket.pipe(platformSide).pipe(socket);
      resolve({ outcome: "answered", status: 101 });
    });
    upstream.once("response", (answer) => void refuse(req, socket, answer).then(resolve, reject));
    upstream.end();
  });
}

async function refuse(req: IncomingMessage, socket: Socket, answer: IncomingMessage): Promise<Upgraded> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  const code = /"code":"([A-Z_]+)"/.exec(body.toString("utf8"))?.[1];
  if (answer.headers["x-svc-worker-id"] === undefined) {
    if (code === "SOURCE_OUTDATED") return { outcome: "outdated" };
    if (code === "ENDPOINT_NOT_FOUND") return { outcome: "gone" };
  }
  const status = answer.statusCode ?? 502;
  plainAnswer(req, socket).writeHead(status, answerHeaders(answer.rawHeaders)).end(body);
  return { outcome: "answered", status };
}

/** An ordinary answer in place of an upgrade; the connection ends with it. */
export function plainAnswer(req: IncomingMessage, socket: Socket): ServerResponse {
  const res = new ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket);
  res.once("finish", () => socket.end());
  return res;
}

function lines(raw: readonly string[]): string {
  const all: string[] = [];
  for (let i = 0; i < raw.length; i += 2) all.push(`${raw[i]}: ${raw[i + 1]}`);
  return all.join("\r\n");
}
