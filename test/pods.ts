/**
 * In runs with Pods (run.ts) workers of the tests' platforms run on hosts that are Pods: the platforms make them beside one real API server, and a
 * played kubelet of each test's own runs their agents on this machine. In others nothing here does anything.
 */
import { randomUUID } from "node:crypto";
import { availableParallelism, totalmem } from "node:os";
import { freePort } from "./free-port.ts";
import { ApiServer } from "./kubernetes/api-server.ts";
import { ClusterApi } from "./kubernetes/cluster-api.ts";
import { findKubernetes } from "./kubernetes/find.ts";
import { PlayedKubelet } from "./kubernetes/played-kubelet.ts";
import { poolsEnv } from "./kubernetes/release.ts";

/** As large as the machine that plays it. A Pod is held for each environment, and stays while its platform does. */
const SIZE = { cpu: availableParallelism(), memory: Math.floor(totalmem() / 2 ** 30 / 2) };
const POOL = { name: "pods", ...SIZE, warm: 1, idle: 600, max: 10 };
const ROOM = { SVC_CPU_OVERCOMMIT: "100", SVC_MEMORY_OVERCOMMIT: "100", SVC_EMULATE_GPU: "1" };
/** Who names one of these says where its workers run. */
const OWN = ["SVC_DRIVER", "SVC_LOCAL_WORKERS", "SVC_WORKER_LISTEN", "SVC_POOLS_FILE"];
/** Of the machine that workers run on, */
const OF_MACHINE = /^(PATH$|SVC_(WORKER_PATHS|ISOLATION))/;
/** and what whoever runs the platform gives its Pods. */
const OF_PODS = /^PIP_/;

interface Known {
  readonly host: string;
  readonly port: number;
  readonly ca: string;
}

class KnownCluster extends ClusterApi {
  readonly host: string;
  readonly port: number;
  readonly ca: string;

  constructor({ host, port, ca }: Known) {
    super();
    this.host = host;
    this.port = port;
    this.ca = ca;
  }
}

/** Of the run that this process belongs to. */
const known: Known | undefined = JSON.parse(process.env.SVC_TEST_PODS ?? "null") ?? undefined;

/** A test that is about the machine that a platform runs on says so by its option `skip`. */
export function ownMachineOnly(why: string): string | false {
  return known !== undefined && `not on Pods: ${why}`;
}

export interface StartedCluster {
  /** For the files that run with Pods. */
  readonly env: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

/** Starts the API server, or resolves why it cannot be. */
export async function startForPods(): Promise<StartedCluster | string> {
  const found = findKubernetes();
  if ("missing" in found) return found.missing;
  const server = await ApiServer.start(found.program);
  const { host, port, ca } = server;
  return { env: { SVC_TEST_PODS: JSON.stringify({ host, port, ca }) }, stop: () => server.stop() };
}

export interface PodsOfOne {
  /** Of the platform. */
  readonly env: Readonly<Record<string, string>>;
  /** The platform has this address now. */
  at(url: string): void;
  /** Ends what runs in its Pods. */
  stop(): Promise<void>;
}

/** Pods for a platform with this environment, which keeps what it needs in `folder`. Undefined where its workers run elsewhere. */
export async function podsOf(folder: string, env: Readonly<Record<string, string>>): Promise<PodsOfOne | undefined> {
  if (known === undefined || OWN.some((name) => env[name] !== undefined)) return undefined;
  const server = new KnownCluster(known);
  const namespace = `t-${randomUUID()}`;
  let url = "";
  const some = (names: RegExp) => Object.fromEntries(Object.entries(env).filter(([name]) => names.test(name)));
  const options = { platform: () => url, env: { ...ROOM, ...some(OF_MACHINE) } };
  const kubelet = new PlayedKubelet(server, namespace, options);
  const made = await poolsEnv(server, namespace, folder, [POOL], { env: some(OF_PODS) });
  // The same when it starts again: workers come back there.
  const port = await freePort();
  return {
    env: { ...made, SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}` },
    at: (now) => {
      if (url === "") kubelet.start();
      url = now;
    },
    stop: async () => {
      if (url !== "") await kubelet.stop();
      server.leave();
    },
  };
}
