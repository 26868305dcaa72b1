/**
 * The gateway processes of this machine: they share the HTTP port, and this process, their owner, does the rest.
 *
 *   start ─▶ listens ─▶ ended by itself, killed, or counted out by its link ─▶ another in its place
 *     └──── did not listen: at the platform's start that is why it does not start, later it is tried again, less and less often
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import {
  CLOSE_LAST_ANSWERS_MS,
  GATEWAY_END_MAX_MS,
  GATEWAY_RESTART_FIRST_MS,
  GATEWAY_RESTART_MAX_MS,
  GATEWAY_START_MAX_MS,
} from "../domain/limits.ts";
import { PRIVATE_SECRET_BYTES } from "../gateway/private-calls.ts";
import type { Gateway } from "../gateway/server.ts";
import { askedOf } from "../gateway-link/asked-of.ts";
import { GatewayDoor } from "../gateway-link/gateway-door.ts";
import { sharedSettings } from "../gateway-link/settings.ts";
import { keepUnwaiting, type Log } from "../lib/log.ts";
import type { Own } from "../lib/own.ts";
import { keysOf } from "../store/key-check.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "./config.ts";
import type { GatewayOrders, GatewayReport } from "./gateway-process.ts";
import { sharedPort } from "./port.ts";

const GONE_POLL_MS = 10;
const GATEWAY_WORD = "\0--as-gateway\0";

interface GatewaysNeeds {
  readonly config: Config;
  /** The words that start svc. */
  readonly program: readonly string[];
  /** Answers what gateways pass on, and has what they ask for. */
  readonly gateway: Gateway;
  readonly store: Store;
  /** Whether what is known here of keys is what is stored. */
  readonly isSure: () => boolean;
  /** Private to this user, seen by no worker. */
  readonly folder: string;
  readonly log: Log;
  readonly own: Own;
  /** Other processes are the gateways now. */
  readonly changed: () => void;
}

interface Running {
  readonly child: ChildProcess;
  readonly startedAt: number;
  listens: boolean;
}

export class Gateways {
  readonly #needs: GatewaysNeeds;
  readonly #door: GatewayDoor;
  readonly #secret = randomBytes(PRIVATE_SECRET_BYTES);
  readonly #running = new Set<Running>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #port = 0;
  #closing = false;

  constructor(needs: GatewaysNeeds) {
    const { gateway, store, own } = needs;
    const { context } = gateway;
    this.#needs = needs;
    this.#door = new GatewayDoor({
      secret: this.#secret.toString("base64url"),
      settings: { ...sharedSettings(context), countsCalls: needs.config.rateLimits !== undefined },
      ...askedOf(context, keysOf(store), own),
      isSure: needs.isSure,
      gone: (pid, reason) => this.#gone(pid, reason),
    });
    store.onChange(({ table, id }) => (table === "hosts" ? undefined : this.#door.changed({ table, id })));
  }

  /** Process ids of those that listen. */
  get pids(): readonly number[] {
    return [...this.#running].filter(({ listens }) => listens).map(({ child }) => child.pid!);
  }

  /**
   * Resolves when all listen. `port`: where the gateway of this process does so already, for others to join. Throws PORT_IN_USE,
   * CONFIG_INVALID and PLATFORM_START_FAILED.
   */
  async start(taken: (port: number) => void, port?: number): Promise<void> {
    const { config, folder, gateway } = this.#needs;
    const shared = port === undefined ? await sharedPort(config.host, config.port) : { port, letGo: () => {} };
    try {
      this.#port = shared.port;
      taken(this.#port);
      await gateway.listenPrivately(this.#callsPath(folder), this.#secret);
      await this.#door.listen(this.#linkPath(folder));
      await Promise.all(Array.from({ length: config.gateways }, () => this.#launch(0)));
    } finally {
      shared.letGo();
    }
  }

  /** Those that run answer what they have begun. */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#door.endAll(graceMs);
    const late = setTimeout(() => this.kill(), graceMs + CLOSE_LAST_ANSWERS_MS + GATEWAY_END_MAX_MS);
    await Promise.all([...this.#running].map(({ child }) => exited(child)));
    clearTimeout(late);
    await this.#door.close();
  }

  kill(): void {
    this.#closing = true;
    for (const { child } of this.#running) child.kill("SIGKILL");
  }

  /** Resolves when it listens; rejects when it ended before. */
  async #launch(failures: number): Promise<void> {
    const { program, config, folder, log } = this.#needs;
    const [command = "", ...args] = program;
    const child = spawn(command, [...args, "platform", "start", "--as-gateway"], {
      // What opens the database and the bucket is not for them.
      env: config.installerEnv,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    keepUnwaiting(process.stderr.fd);
    const running: Running = { child, startedAt: performance.now(), listens: false };
    this.#running.add(running);
    child.on("error", () => {});
    const end = exited(child).then((how) => {
      this.#running.delete(running);
      return how;
    });
    const orders: GatewayOrders = {
      linkPath: this.#linkPath(folder),
      callsPath: this.#callsPath(folder),
      secret: this.#secret.toString("base64url"),
      host: config.host,
      port: this.#port,
    };
    // One that has ended, or never began, says so itself.
    if (child.connected) child.send(orders, () => {});
    const late = setTimeout(() => child.kill("SIGKILL"), GATEWAY_START_MAX_MS);
    const said = await Promise.race([
      new Promise<GatewayReport>((resolve) => {
        child.once("message", (message) => resolve(message as GatewayReport));
      }),
      end.then((how): GatewayReport => ({ listens: false, code: "", message: `it ended with ${how}` })),
    ]);
    clearTimeout(late);
    if (!said.listens) {
      child.kill("SIGKILL");
      await end;
      throw new SvcError("PLATFORM_START_FAILED", `A gateway process cannot listen: ${said.message}`, {
        help: "The platform's log says more. SVC_GATEWAYS=0 does without such processes.",
      });
    }
    running.listens = true;
    log.info("a gateway listens", { pid: child.pid });
    this.#needs.changed();
    this.#needs.own(
      "replacing a gateway",
      end.then((how) => {
        this.#needs.changed();
        if (this.#closing) return;
        log.error("a gateway has ended; another takes its place", { pid: child.pid, how });
        const lasted = performance.now() - running.startedAt > GATEWAY_RESTART_MAX_MS;
        this.#again(lasted ? 0 : failures + 1);
      }),
    );
  }

  #again(failures: number): void {
    if (this.#closing) return;
    const pauseMs =
      failures === 0 ? 0 : Math.min(GATEWAY_RESTART_MAX_MS, GATEWAY_RESTART_FIRST_MS * 2 ** (failures - 1));
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      const launched = this.#launch(failures).catch((error) => {
        this.#again(failures + 1);
        throw error;
      });
      this.#needs.own("starting a gateway", launched);
    }, pauseMs);
    this.#timers.add(timer);
  }

  /** A gateway without its link is of no use: it has a moment to tell its callers. */
  #gone(pid: number, reason: string): void {
    const running = [...this.#running].find(({ child }) => child.pid === pid);
    if (running === undefined || this.#closing) return;
    this.#needs.log.error("a gateway is counted out", { pid, reason });
    const late = setTimeout(() => running.child.kill("SIGKILL"), GATEWAY_END_MAX_MS);
    running.child.once("exit", () => clearTimeout(late));
  }

  #linkPath(folder: string): string {
    return path.join(folder, "link.sock");
  }

  #callsPath(folder: string): string {
    return path.join(folder, "calls.sock");
  }
}

/** Ends gateways that outlived their platform, stopped as they were: they would hold its port. Resolves when none holds it. */
export async function endLeftGateways(pids: readonly number[]): Promise<void> {
  for (const pid of pids) if (wordsOf(pid).includes(GATEWAY_WORD)) process.kill(pid, "SIGKILL");
  const late = performance.now() + GATEWAY_END_MAX_MS;
  while (pids.some(mayListen) && performance.now() < late) await delay(GONE_POLL_MS);
}

/** A process that ends has no words any more before its sockets are closed: that is when the last of its threads has ended. */
function mayListen(pid: number): boolean {
  const words = wordsOf(pid);
  if (words !== "") return words.includes(GATEWAY_WORD);
  try {
    const isZombie = /^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
    return !isZombie || readdirSync(`/proc/${pid}/task`).length > 1;
  } catch {
    return false;
  }
}

/** "" of one that is gone, or ends. A number may be another process's by now. */
function wordsOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}

/** Resolves with what a process ended with. */
function exited(child: ChildProcess): Promise<string> {
  const how = () => child.signalCode ?? `code ${child.exitCode}`;
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(how());
  return new Promise((resolve) => {
    child.once("exit", () => resolve(how()));
    child.once("error", (error) => resolve(error.message));
  });
}
