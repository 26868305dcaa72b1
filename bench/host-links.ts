/**
 * What links of hosts cost a real platform: its memory with 100 agents that are played here but whose links are real (TLS, a secret each),
 * and with 30 more of each, as its workers open them; then what silence costs, in processor time.
 */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { TLSSocket } from "node:tls";
import type { HostHello } from "../src/domain/host-protocol.ts";
import { VERSION } from "../src/domain/version.ts";
import { FRAME, PROTOCOL_VERSION } from "../src/domain/worker-protocol.ts";
import { dialPinned, findWorkerPort, joinAddress, pinned, type WorkerPort } from "../src/host/dial.ts";
import { PlatformLink } from "../src/host/link.ts";
import { encodeFrame } from "../src/lib/frames.ts";
import { libc } from "../src/lib/libc.ts";
import type { BenchPlatform } from "./processes.ts";
import { processorTime, residentMb } from "./processor-time.ts";

const AGENTS = 100;
const WORKERS_EACH = 30;
/** Handshakes at once. */
const AT_ONCE = 10;
const SETTLE_MS = 3_000;
const SILENCE_MS = 10_000;

export async function linksCost(platform: BenchPlatform): Promise<Record<string, number>> {
  const { createHostToken: made } = await platform.query<{
    createHostToken: { secret: string; fingerprint: string };
  }>("mutation { createHostToken(input: { reusable: true }) { secret fingerprint } }");
  const address = await pinned(joinAddress(`${platform.url}#${made.fingerprint}`), undefined);
  const port = await findWorkerPort(address);
  const links: PlatformLink[] = [];
  const waiting: TLSSocket[] = [];
  const rss = async () => {
    await delay(SETTLE_MS);
    return residentMb(platform.pid);
  };
  try {
    const before = await rss();
    const tickets: string[] = [];
    for (let n = 0; n < AGENTS; n++) {
      const { link, ticket } = await joined(address, made.secret, `played-${n}`);
      links.push(link);
      tickets.push(ticket);
    }
    const withAgents = await rss();
    const dials = tickets.flatMap((ticket) => Array.from({ length: WORKERS_EACH }, () => ticket));
    for (let n = 0; n < dials.length; n += AT_ONCE) {
      waiting.push(...(await Promise.all(dials.slice(n, n + AT_ONCE).map((ticket) => waits(address, port, ticket)))));
    }
    const withAll = await rss();
    const spent = processorTime({ platform: { pids: [platform.pid] } });
    await delay(SILENCE_MS);
    return {
      "platform before links MB": before,
      [`platform with ${AGENTS} agents MB`]: withAgents,
      "memory of an agent's link KB": ((withAgents - before) * 1024) / AGENTS,
      [`platform with ${AGENTS} agents and ${dials.length} links of workers MB`]: withAll,
      "memory of a worker's link KB": ((withAll - withAgents) * 1024) / dials.length,
      "processor time of the platform while all are silent, ms a second": spent().platform! / (SILENCE_MS / 1_000),
    };
  } finally {
    for (const socket of waiting) socket.destroy();
    for (const link of links) link.close();
  }
}

async function joined(address: Parameters<typeof dialPinned>[0], token: string, name: string) {
  const machine = { vcpus: 32, memoryGb: 128 };
  const { platform, arch } = process;
  const given = { platform, arch, libc: await libc(), version: VERSION, driver: "process" };
  const host: HostHello = { ...given, name, labels: [], sharedVolumes: false, clock: Date.now() };
  let ticket = "";
  let secret = token;
  const link = new PlatformLink({
    address,
    hello: () => ({ token: secret, host }),
    events: {
      async welcomed(welcome) {
        ticket = welcome.ahead ?? "";
        secret = welcome.secret ?? secret;
        const of = { ...machine, hardware: machine, gpus: [], emulatesGpu: false };
        return { machine: of, workers: [], missing: [], freeDiskBytes: 2 ** 40 };
      },
      asked: () => {},
      away: () => {},
      refused: (error) => {
        throw error;
      },
    },
  });
  await link.dial();
  return { link, ticket };
}

/** As a spare does before it is a worker. */
async function waits(address: Parameters<typeof dialPinned>[0], port: WorkerPort, token: string): Promise<TLSSocket> {
  const socket = await dialPinned(address, port);
  socket.on("error", () => {}).resume();
  const head = { protocol: PROTOCOL_VERSION, role: "ahead", token };
  for (const part of encodeFrame(FRAME.HELLO, 0, head)) if (!socket.write(part)) await once(socket, "drain");
  return socket;
}
