/**
 * Nodes that may be gone while Kubernetes still counts on them: for a while no Pod is put there. Pure.
 *
 *   an agent there is silent, or its kubelet begins no Pod ──▶ avoided ──it is heard again, or Kubernetes must know by now──▶ used
 */
import {
  HOST_SILENCE_MAX_MS,
  NODE_AVOIDED_MAX_MS,
  NODES_AVOIDED_MAX,
  POD_BACK_MAX_MS,
  POD_UNBEGUN_MAX_MS,
} from "./limits.ts";

/** A Pod as far as it says something of its node. */
export interface OnNode {
  /** Absent: it has none yet. */
  readonly node?: string | undefined;
  /** Its agent is heard: so its node lives. */
  readonly isHeard?: boolean;
  /** Milliseconds since its agent was heard last, where nobody had told it to end. */
  readonly lostMs?: number | undefined;
  /** Milliseconds that it has had a node whose kubelet says nothing of it. */
  readonly unbegunMs?: number | undefined;
  /** Nodes that it was kept from when it was made. */
  readonly avoids?: readonly string[];
}

/** Names of the nodes on which no Pod is to be put now. */
export function nodesToAvoid(pods: readonly OnNode[]): readonly string[] {
  const unbegun = nodesOf(pods, ({ unbegunMs }) => isBetween(unbegunMs, POD_UNBEGUN_MAX_MS));
  return [...new Set([...lostNodes(pods, POD_BACK_MAX_MS), ...unbegun])].sort().slice(0, NODES_AVOIDED_MAX);
}

/** Why a Pod that is on its way is not waited for any longer; undefined: it is. */
export function whyGivenUp({ node, unbegunMs = 0, avoids = [] }: OnNode, pods: readonly OnNode[]): string | undefined {
  if (node === undefined) {
    if (avoids.length === 0) return undefined;
    const avoided = nodesToAvoid(pods);
    return avoids.some((name) => avoided.includes(name))
      ? undefined
      : "the nodes that it was kept from may be used again";
  }
  if (unbegunMs > POD_UNBEGUN_MAX_MS) return `the kubelet of its node ${node} does not begin it`;
  return lostNodes(pods, HOST_SILENCE_MAX_MS).has(node) ? `its node ${node} does not answer` : undefined;
}

/** Those with an agent that is silent for so long, and none that is heard. */
function lostNodes(pods: readonly OnNode[], forMs: number): ReadonlySet<string> {
  const lost = nodesOf(pods, ({ lostMs }) => isBetween(lostMs, forMs));
  for (const node of nodesOf(pods, ({ isHeard }) => isHeard === true)) lost.delete(node);
  return lost;
}

/** Later Kubernetes knows by itself, or never will. */
function isBetween(ms: number | undefined, min: number): boolean {
  return ms !== undefined && ms >= min && ms <= min + NODE_AVOIDED_MAX_MS;
}

function nodesOf(pods: readonly OnNode[], isMeant: (pod: OnNode) => boolean): Set<string> {
  return new Set(pods.flatMap((pod) => (pod.node !== undefined && isMeant(pod) ? [pod.node] : [])));
}
