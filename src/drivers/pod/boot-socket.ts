/**
 * Where the program of the workers' container of a Pod (python/src/svc/_runtime/in_pod.py) asks for its launcher's settings. One line of JSON each:
 *
 *   ◀─ {"probe"}: a program that says what the image has      ─▶ what it printed, and the image's variables      ◀─ the launcher's settings
 *
 * So nothing secret lies in a file or stands in the Pod: settings are given to a launcher once, when none is there.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { z } from "zod";
import { SvcError } from "../../domain/errors.ts";
import { POD_FACTS_MAX_BYTES, POD_GREETING_MAX_MS } from "../../domain/limits.ts";
import { listenPrivately } from "../../lib/listen-privately.ts";
import { factsOf, type ImageFacts, PROBE } from "../docker/image-facts.ts";

const said = z.object({
  code: z.number(),
  stdout: z.string(),
  stderr: z.string(),
  env: z.record(z.string(), z.string()),
});

interface BootSocketOptions {
  /** As messages name it. */
  readonly image: string;
  /** Whether one may come now: none is there. */
  readonly isWanted: () => boolean;
  /** Settings of a launcher that begins in a container of this image. */
  readonly begins: (facts: ImageFacts) => Promise<object>;
  readonly told: (line: string, facts: Readonly<Record<string, unknown>>) => void;
}

export class BootSocket {
  readonly #options: BootSocketOptions;
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;

  constructor(options: BootSocketOptions) {
    this.#options = options;
  }

  async listen(file: string): Promise<void> {
    const server = createServer((socket) => this.#came(socket));
    await listenPrivately(server, file);
    this.#server = server;
  }

  close(): void {
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #came(socket: Socket): void {
    socket.on("error", () => socket.destroy());
    // Two at once would both be launchers; the other one asks again.
    if (this.#sockets.size > 0 || !this.#options.isWanted()) return void socket.destroy();
    this.#sockets.add(socket);
    const late = setTimeout(() => socket.destroy(), POD_GREETING_MAX_MS);
    socket.on("close", () => {
      clearTimeout(late);
      this.#sockets.delete(socket);
    });
    this.#answer(socket).catch((error: unknown) => {
      this.#options.told("the workers' container cannot be used", { error });
      const words = error instanceof SvcError ? `${error.message} ${error.help ?? ""}`.trim() : "its answer is wrong";
      socket.end(`${JSON.stringify({ problem: words })}\n`);
    });
  }

  async #answer(socket: Socket): Promise<void> {
    const { image, begins, isWanted } = this.#options;
    socket.write(`${JSON.stringify({ probe: PROBE })}\n`);
    const line = await firstLine(socket);
    if (line === undefined) return;
    const { env, ...output } = said.parse(JSON.parse(line));
    const facts = factsOf(image, "", output, Object.entries(env));
    if (isWanted()) socket.end(`${JSON.stringify(await begins(facts))}\n`);
    else socket.destroy();
  }
}

/** Undefined when it ends without one. */
function firstLine(socket: Socket): Promise<string | undefined> {
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > POD_FACTS_MAX_BYTES) socket.destroy();
  });
  const lines = createInterface({ input: socket, crlfDelay: Number.POSITIVE_INFINITY });
  return new Promise((resolve) => {
    lines.once("line", resolve);
    lines.once("close", () => resolve(undefined));
  });
}
