/** Requests as an attacker writes them: byte for byte, without a client that tidies them first. */
import { connect } from "node:net";

/** The whole answer of a server that closes the connection behind it. `ends`: the sending side is closed behind the text. */
export function rawRequest(url: string, text: string, { ends = false } = {}): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ""), () =>
      ends ? socket.end(text, "latin1") : socket.write(text, "latin1"),
    );
    const chunks: Buffer[] = [];
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(chunks).toString("latin1")));
  });
}

/** One request with the path exactly as given. */
export function rawCall(
  url: string,
  { method = "GET", path, headers = {}, body = "" }: RawCall,
): Promise<{ status: number; text: string }> {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${new URL(url).host}`];
  const all = { Connection: "close", ...(body === "" ? {} : { "Content-Length": String(body.length) }), ...headers };
  for (const [name, value] of Object.entries(all)) lines.push(`${name}: ${value}`);
  return rawRequest(url, `${lines.join("\r\n")}\r\n\r\n${body}`).then((text) => ({
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]),
    text,
  }));
}

interface RawCall {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}
