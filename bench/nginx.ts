/** nginx as a proxy with kept connections: the machine's own, or Debian's package unpacked into the cache. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onPath } from "../src/lib/on-path.ts";
import { debianProgram } from "../test/debian-packages.ts";
import { type Peer, startServer } from "./processes.ts";

const KEPT = 64;

/** `more` are lines of its location. Or why there is no nginx. */
export async function startNginx(upstream: number, more = ""): Promise<Peer | { readonly missing: string }> {
  const own = onPath("nginx", process.env.PATH ?? "");
  const found = own === undefined ? await debianProgram("nginx", "bookworm", "usr/sbin/nginx") : { program: own };
  if ("missing" in found) return found;
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${dir}/${name};`);
  const file = path.join(dir, "nginx.conf");
  const peer = await startServer(found.program, (port) => {
    // As root it would give its folders to a user of its own.
    const user = process.getuid?.() === 0 ? "user root;" : "";
    const conf = `${user} daemon off; worker_processes 1; pid ${dir}/pid; error_log stderr crit;
events { worker_connections 4096; }
http {
  access_log off; ${temp.join(" ")} keepalive_requests 10000000;
  upstream app { server 127.0.0.1:${upstream}; keepalive ${KEPT}; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; ${more} }
  }
}`;
    writeFileSync(file, conf);
    return ["-p", dir, "-c", file, "-e", "stderr"];
  });
  const stop = async () => {
    await peer.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  return { ...peer, stop };
}
