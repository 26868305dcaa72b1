/** A platform whose workers run on machines that joined: agents as real processes, in network namespaces of their own where a test cuts their link. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import type { TestContext } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { AgentProcess } from "../host/agent-process.ts";
import { project, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const APP = (file: string) => `
import time
from svc import Endpoint

@Endpoint(name="record", workers=(0, 2), idle_timeout=600)
def record(n, seconds=0.02):
    with open(${JSON.stringify(file)}, "a") as out:
        out.write(f"{n}\\n")
    time.sleep(seconds)
    return {"n": n}
`;

interface Machine {
  /** The platform's, as that machine reaches it. */
  readonly url?: string;
  /** The network namespace that it is in. */
  readonly netns?: string;
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Further flags of svc worker join. */
  readonly args?: readonly string[];
}

/** What an agent is called with that joins the platform, which it reaches at `url`. */
export async function invitation(platform: TestPlatform, url = platform.url) {
  const { workersDial } = JSON.parse(readFileSync(path.join(platform.dataDir, "platform.json"), "utf8"));
  const made = await platform.query<{ createHostToken: { secret: string } }>(
    "mutation { createHostToken(input: {}) { secret } }",
  );
  const [pin] = /#[0-9a-f]{64}$/.exec(workersDial)!;
  return {
    address: `${url}${pin}`,
    env: { SVC_HOST_TOKEN: made.createHostToken.secret, SVC_WORKER_PATHS: platform.shared },
  };
}

export async function startJoinable(t: TestContext, env: Record<string, string> = {}) {
  const platform = await startPlatform(t, { SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0", ...env });
  return { platform, ...joinable(t, platform) };
}

/** The same of a platform that runs. */
export function joinable(t: TestContext, platform: TestPlatform) {
  const effects = path.join(platform.shared, "effects.txt");
  /** Starts the agent; it ends with the test, with all it started. */
  const join = async (
    name: string,
    { url = platform.url, netns = "", dataDir: given, env: more = {}, args: flags = [] }: Machine = {},
  ) => {
    const agents: AgentProcess[] = [];
    // Before its folder goes: one that lives writes to it.
    t.after(async () => {
      for (const agent of agents) if (agent.isAlive) await agent.signal("SIGINT");
    });
    const dataDir = given ?? path.join(tempDir(t), "host");
    const invited = await invitation(platform, url);
    const args = [invited.address, "--name", name, "--data-dir", dataDir, "--json", ...flags];
    const hostEnv = { ...more, ...invited.env };
    const start = () => {
      const agent = new AgentProcess(args, hostEnv, netns);
      agents.push(agent);
      return agent;
    };
    const agent = start();
    await isHere(platform, name).catch((error) => {
      throw new Error(`${(error as Error).message}\n${agent.stdout}${agent.stderr}`);
    });
    return { agent, again: start, dataDir };
  };
  const deploy = async () => {
    const dir = project(t, { "worker.py": APP(effects) });
    const { code, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 0, stderr);
    const [endpoint] = await platform.endpoints();
    return endpoint!;
  };
  const ran = () => {
    try {
      return readFileSync(effects, "utf8").trim().split("\n").map(Number);
    } catch {
      return [];
    }
  };
  return { join, deploy, ran };
}

type Started = { readonly status: number; readonly json: { readonly id: string } };

export async function run(platform: TestPlatform, url: string, n: number, seconds = 0.02): Promise<Started> {
  const answer = await platform.call(`${url}/run`, { body: { input: { n, seconds } } });
  assert.equal(answer.status, 200, answer.text);
  return answer as Started;
}

export async function result(platform: TestPlatform, id: string, { json }: Started) {
  const answer = await platform.call(`${platform.url}/v2/${id}/status-sync/${json.id}?wait=90000`);
  assert.equal(answer.json.status, "COMPLETED", answer.text);
  return answer.json;
}

export interface ShownHost {
  readonly name: string;
  readonly state: string;
  readonly workers: readonly { readonly id: string }[];
}

export async function hosts(platform: TestPlatform): Promise<ShownHost[]> {
  return (await platform.query<{ hosts: ShownHost[] }>("{ hosts { name state workers { id } } }")).hosts;
}

export function isHere(platform: TestPlatform, name: string, state = "joined"): Promise<void> {
  return eventually(async () => {
    const found = (await hosts(platform)).find((host) => host.name === name);
    assert.equal(found?.state, state, JSON.stringify(found));
  });
}

async function ip(...args: string[]): Promise<void> {
  const { code, stderr } = await runProcess("ip", args);
  if (code !== 0) throw new Error(stderr);
}

/** A network namespace with a link to this machine that can be cut; undefined where none can be made. */
export async function networkOf(t: TestContext, kind: "IPv4" | "IPv6" = "IPv4") {
  if (process.getuid?.() !== 0) return undefined;
  const id = `svc${process.pid % 100_000}`;
  const [here, there, bits] = addresses(kind, 231);
  try {
    await ip("netns", "add", id);
  } catch {
    return undefined;
  }
  t.after(async () => {
    await ip("link", "del", `${id}a`).catch(() => {});
    await ip("netns", "del", id);
  });
  await ip("link", "add", `${id}a`, "type", "veth", "peer", "name", `${id}b`, "netns", id);
  await addAddress([], `${id}a`, `${here}/${bits}`);
  await addAddress(["-n", id], `${id}b`, `${there}/${bits}`);
  await ip("-n", id, "link", "set", "lo", "up");
  return {
    id,
    /** This machine's address, as it is reached from there. */
    address: here,
    cut: () => ip("link", "set", `${id}a`, "down"),
    mend: () => ip("link", "set", `${id}a`, "up"),
  };
}

/** Ours and theirs on a link of the test's own. */
function addresses(kind: "IPv4" | "IPv6", net: number): [string, string, number] {
  const own = process.pid % 256;
  if (kind === "IPv6") return [`fd00:${net}:${own}::1`, `fd00:${net}:${own}::2`, 64];
  return [`10.${net}.${own}.1`, `10.${net}.${own}.2`, 29];
}

async function addAddress(where: readonly string[], link: string, address: string): Promise<void> {
  const now = address.includes(":") ? ["nodad"] : [];
  await ip(...where, "addr", "add", address, "dev", link, ...now);
  await ip(...where, "link", "set", link, "up");
}

/**
 * A network namespace whose way to this machine goes through another one, which puts its own address in the place of what it passes on:
 *
 *   `id` ── 192.168.77.0/24 ── router, MASQUERADE ── this machine
 *
 * Or why there is none.
 */
export async function natOf(t: TestContext) {
  const network = await networkOf(t);
  if (network === undefined) return "network namespaces cannot be made here";
  const { id: router, address } = network;
  const inner = `${router}n`;
  await ip("netns", "add", inner);
  t.after(() => ip("netns", "del", inner));
  await ip("-n", router, "link", "add", "inside", "type", "veth", "peer", "name", "eth0", "netns", inner);
  await addAddress(["-n", router], "inside", "192.168.77.1/24");
  await addAddress(["-n", inner], "eth0", "192.168.77.2/24");
  await ip("-n", inner, "link", "set", "lo", "up");
  await ip("-n", inner, "route", "add", "default", "via", "192.168.77.1");
  const inRouter = async (...args: string[]) => {
    const { code, stderr } = await runProcess("ip", ["netns", "exec", router, ...args]);
    return code === 0 ? undefined : stderr.trim();
  };
  const outside = `${router}b`;
  const lacks =
    (await inRouter("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")) ??
    (await inRouter("iptables", "-t", "nat", "-A", "POSTROUTING", "-o", outside, "-j", "MASQUERADE"));
  if (lacks !== undefined) return `no NAT can be made here: ${lacks}`;
  return {
    id: inner,
    /** This machine's address, as it is reached from there. */
    address,
    /** The router gets another address: what it passed on until then goes nowhere. */
    moves: async () => {
      const parts = address.split(".").slice(0, 3).join(".");
      await ip("-n", router, "addr", "del", `${parts}.2/29`, "dev", outside);
      await ip("-n", router, "addr", "add", `${parts}.3/29`, "dev", outside);
    },
  };
}
