/**
 * Enforces the network policies of a cluster of tests, whose own network does not: as a cluster's network would, by rules of nftables in the network
 * namespace of every node. What they say is read from the API server again and again; of what is not known here nothing is guessed.
 *
 *   a Pod's packet ──▶ its egress, if a policy says so ──▶ the ingress of the Pod it is for, likewise ──▶ on;  answers pass
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Cluster } from "./cluster.ts";

const PAUSE_MS = 300;

interface Pod {
  readonly metadata: { readonly namespace: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: {
    readonly containers: readonly {
      readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
    }[];
  };
  readonly status: { readonly podIP?: string };
}
interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
}
interface Peer {
  readonly podSelector?: Selector;
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
}
interface Port {
  readonly port: number | string;
  readonly protocol?: string;
}
interface Rule {
  readonly from?: readonly Peer[];
  readonly to?: readonly Peer[];
  readonly ports?: readonly Port[];
}
interface Policy {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly podSelector: Selector;
    readonly policyTypes: readonly ("Ingress" | "Egress")[];
    readonly ingress?: readonly Rule[];
    readonly egress?: readonly Rule[];
  };
}

export class PolicyEnforcer {
  readonly #cluster: Cluster;
  readonly #nodes: readonly number[];
  readonly #file: string;
  #running: Promise<void> | undefined;
  #closed = false;
  #applied = "";

  constructor(cluster: Cluster, nodes: readonly number[], folder: string) {
    this.#cluster = cluster;
    this.#nodes = nodes;
    this.#file = path.join(folder, "policies.nft");
  }

  start(): void {
    this.#running = this.#run();
  }

  /** The nodes' rules stay. */
  async stop(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  /** In the words of nftables. */
  get rules(): string {
    return this.#applied;
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      await this.#look().catch((error) => process.stderr.write(`policies: ${error}\n`));
      await delay(PAUSE_MS);
    }
  }

  async #look(): Promise<void> {
    const { server } = this.#cluster;
    const policies = await server.done("GET", "/apis/networking.k8s.io/v1/networkpolicies");
    const pods = await server.done("GET", "/api/v1/pods");
    const text = rulesOf(policies.items, pods.items);
    if (text === this.#applied) return;
    writeFileSync(this.#file, text);
    for (const number of this.#nodes) await this.#cluster.on(number, ["nft", "-f", this.#file]);
    this.#applied = text;
  }
}

export function rulesOf(policies: readonly Policy[], pods: readonly Pod[]): string {
  const chains: string[] = [];
  const jumps: string[] = [];
  for (const [type, own, far] of [
    ["Egress", "saddr", "daddr"],
    ["Ingress", "daddr", "saddr"],
  ] as const) {
    for (const pod of pods) {
      const mine = policies.filter((one) => one.spec.policyTypes.includes(type) && isMeant(one, pod));
      const { podIP } = pod.status;
      if (mine.length === 0 || podIP === undefined) continue;
      const chain = `${type.toLowerCase()}_${podIP.replaceAll(".", "_")}`;
      const allowed = mine.flatMap(({ metadata, spec }) =>
        (spec[type === "Egress" ? "egress" : "ingress"] ?? []).flatMap((rule) =>
          matches(rule, (type === "Egress" ? rule.to : rule.from) ?? undefined, far, {
            inside: pods.filter((one) => one.metadata.namespace === metadata.namespace),
            target: type === "Ingress" ? pod : undefined,
          }),
        ),
      );
      chains.push(`chain ${chain} {\n${allowed.map((match) => `${match} return\n`).join("")}drop\n}`);
      jumps.push(`ip ${own} ${podIP} jump ${chain}`);
    }
  }
  const base = (hook: string) =>
    `chain ${hook} {\ntype filter hook ${hook} priority 0; policy accept;\nct state established,related accept\n${jumps.join("\n")}\n}`;
  // A Pod's way to its own node ends there.
  return `table inet policies\ndelete table inet policies\ntable inet policies {\n${chains.join("\n")}\n${base("forward")}\n${base("input")}\n}\n`;
}

interface Known {
  readonly inside: readonly Pod[];
  /** Whose ports have the names; absent: those of the peer. */
  readonly target: Pod | undefined;
}

/** What a rule lets through, each as a condition; `far` is the peer's end. */
function matches(rule: Rule, peers: readonly Peer[] | undefined, far: "saddr" | "daddr", known: Known): string[] {
  onlyKnown(rule, ["from", "to", "ports"]);
  const ports = rule.ports ?? [];
  if (peers === undefined || peers.length === 0) return portsOf(ports, known.target).map((port) => port);
  return peers.flatMap((peer) => {
    onlyKnown(peer, ["podSelector", "ipBlock"]);
    const { podSelector, ipBlock } = peer;
    if (ipBlock !== undefined) {
      if (ipBlock.cidr.includes(":")) return []; // The nodes have no IPv6.
      const { cidr, except = [] } = ipBlock;
      const not = except.length > 0 ? ` ip ${far} != { ${except.join(", ")} }` : "";
      return portsOf(ports, known.target).map((port) => `ip ${far} ${cidr}${not} ${port}`);
    }
    assert.ok(podSelector !== undefined);
    return known.inside
      .filter((pod) => isSelected(podSelector, pod) && pod.status.podIP !== undefined)
      .flatMap((pod) => portsOf(ports, known.target ?? pod).map((port) => `ip ${far} ${pod.status.podIP} ${port}`));
  });
}

/** One empty condition when all ports are meant; none for a name that nobody has. */
function portsOf(ports: readonly Port[], named: Pod | undefined): string[] {
  if (ports.length === 0) return [""];
  return ports.flatMap((one) => {
    onlyKnown(one, ["port", "protocol"]);
    const { port, protocol = "TCP" } = one;
    const numbers =
      typeof port === "number"
        ? [port]
        : (named?.spec.containers ?? []).flatMap(({ ports: all = [] }) =>
            all.filter(({ name }) => name === port).map(({ containerPort }) => containerPort),
          );
    return numbers.map((number) => `${protocol.toLowerCase()} dport ${number}`);
  });
}

function isMeant({ metadata, spec }: Policy, pod: Pod): boolean {
  onlyKnown(spec, ["podSelector", "policyTypes", "ingress", "egress"]);
  return metadata.namespace === pod.metadata.namespace && isSelected(spec.podSelector, pod);
}

function isSelected(selector: Selector, { metadata }: Pod): boolean {
  onlyKnown(selector, ["matchLabels"]);
  return Object.entries(selector.matchLabels ?? {}).every(([key, value]) => metadata.labels?.[key] === value);
}

function onlyKnown(object: object, names: readonly string[]): void {
  const other = Object.keys(object).filter((name) => !names.includes(name));
  assert.deepEqual(other, [], "what a policy says that is not enforced here");
}
