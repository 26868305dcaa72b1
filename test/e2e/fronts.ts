/** Fronts that people have before a platform, with Debian's programs: nginx and HAProxy, which pass TCP on. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:net";
import path from "node:path";
import type { TestContext } from "node:test";
import { debianProgram } from "../debian-packages.ts";
import { eventually } from "../eventually.ts";
import { tempDir } from "./platform.ts";

const SUITE = "bookworm";
const LIBRARIES = `usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;

export type FrontKind = "nginx" | "HAProxy";

/** `host:port` that it listens at, and where that goes. */
export type Ways = Readonly<Record<string, string>>;

interface Front {
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
  config(ways: Ways, idleS: number, dir: string): string;
  args(file: string, dir: string): string[];
}

/** The front, or why there is none. */
export async function findFront(kind: FrontKind): Promise<Front | { readonly missing: string }> {
  return kind === "nginx" ? findNginx() : findHaproxy();
}

async function findNginx(): Promise<Front | { readonly missing: string }> {
  const found = await debianProgram("nginx", SUITE, "usr/sbin/nginx");
  if ("missing" in found) return found;
  const stream = await debianProgram("libnginx-mod-stream", SUITE, "usr/lib/nginx/modules/ngx_stream_module.so");
  if ("missing" in stream) return stream;
  return {
    program: found.program,
    env: {},
    config: (ways, idleS, dir) => `
load_module ${stream.program};
daemon off;
worker_processes 1;
pid ${dir}/nginx.pid;
error_log stderr;
events { worker_connections 256; }
stream {
${Object.entries(ways)
  .map(([at, to]) => `  server { listen ${at}; proxy_pass ${to}; proxy_timeout ${idleS}s; }`)
  .join("\n")}
}
`,
    args: (file, dir) => ["-e", "stderr", "-p", dir, "-c", file],
  };
}

async function findHaproxy(): Promise<Front | { readonly missing: string }> {
  const found = await debianProgram("haproxy", SUITE, "usr/sbin/haproxy");
  if ("missing" in found) return found;
  const folders: string[] = [];
  for (const [name, file] of [
    ["liblua5.3-0", "liblua5.3.so.0"],
    ["libopentracing-c-wrapper0", "libopentracing-c-wrapper.so.0"],
    ["libopentracing1", "libopentracing.so.1"],
  ] as const) {
    const library = await debianProgram(name, SUITE, `${LIBRARIES}/${file}`);
    if ("missing" in library) return library;
    folders.push(path.dirname(library.program));
  }
  return {
    program: found.program,
    env: { LD_LIBRARY_PATH: folders.join(":") },
    config: (ways, idleS) => `
global
  maxconn 256
defaults
  mode tcp
  timeout connect 5s
  timeout client ${idleS}s
  timeout server ${idleS}s
${Object.entries(ways)
  .map(([at, to], n) => `listen way${n}\n  bind ${at}\n  server one ${to}`)
  .join("\n")}
`,
    args: (file) => ["-db", "-f", file],
  };
}

/** It cuts connections on which nothing was said for `idleS` seconds. Resolves when it listens. */
export async function startFront(t: TestContext, front: Front, ways: Ways, idleS: number): Promise<void> {
  const dir = tempDir(t);
  await startWith(t, front, dir, front.config(ways, idleS, dir), Object.keys(ways));
}

/** The same with a configuration that is there, by which it listens at `addresses`. Resolves what tells what it said so far. */
export async function startWith(
  t: TestContext,
  front: Front,
  dir: string,
  config: string,
  addresses: readonly string[],
): Promise<() => string> {
  const file = path.join(dir, "front.conf");
  writeFileSync(file, config);
  const child = spawn(front.program, front.args(file, dir), {
    env: { ...process.env, ...front.env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  for (const at of addresses) {
    await eventually(async () => {
      if (child.exitCode !== null) throw new Error(`${front.program} ended: ${said}`);
      await isOpen(at);
    });
  }
  return () => said;
}

async function isOpen(at: string): Promise<void> {
  const [host, port] = at.split(":") as [string, string];
  const socket = connect(Number(port), host);
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}

/** A server that says nothing, for a way of a front: who connects through it sees when the front cuts. */
export async function silentServer(t: TestContext): Promise<string> {
  const server = createServer((socket) => void socket.on("error", () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Resolves when the front has cut a silent connection. */
export async function cutOnce(at: string): Promise<void> {
  const [host, port] = at.split(":") as [string, string];
  const socket = connect(Number(port), host);
  socket.on("error", () => {}).resume();
  await once(socket, "close");
}
