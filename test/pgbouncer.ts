/** PgBouncer of tests, in transaction mode: in front of a server of test/postgres.ts. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { aptInstall } from "./apt-install.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import type { PostgresServer } from "./postgres.ts";

const PROGRAM = "/usr/sbin/pgbouncer";
const START_MAX_MS = 30_000;

/** Why there is none; undefined when it can be started. */
export async function lackOfPgBouncer(): Promise<string | undefined> {
  if (existsSync(PROGRAM)) return undefined;
  const problem = await aptInstall("pgbouncer");
  return existsSync(PROGRAM) ? undefined : (problem ?? "PgBouncer is not installed");
}

/** Resolves the port where it listens, and what ends it. Two server connections serve all clients of a database. */
export async function startPgBouncer(server: PostgresServer): Promise<{ port: number; stop(): Promise<void> }> {
  const folder = mkdtempSync("/tmp/svc-pgbouncer-");
  const port = await freePort();
  const file = path.join(folder, "pgbouncer.ini");
  const settings = [
    "[databases]",
    `* = host=127.0.0.1 port=${server.port}`,
    "[pgbouncer]",
    ...["listen_addr=127.0.0.1", `listen_port=${port}`, "unix_socket_dir=", "auth_type=any", "pool_mode=transaction"],
    ...["default_pool_size=2", "max_client_conn=100", "server_login_retry=0"],
  ];
  // With auth_type=any it needs to be told whom it logs in as.
  settings[1] += " user=svc";
  writeFileSync(file, `${settings.join("\n")}\n`);
  // It refuses to run as root.
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  const user = process.getuid!() === 0 ? { uid: id("-u"), gid: id("-g") } : {};
  chmodSync(folder, 0o755);
  const child = spawn(PROGRAM, [file], { ...user, cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      child.kill("SIGINT");
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await eventually(async () => {
      assert.equal(child.exitCode, null, log);
      const socket = connect(port, "127.0.0.1");
      await once(socket, "connect").finally(() => socket.destroy());
    }, START_MAX_MS);
    return { port, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
