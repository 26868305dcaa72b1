/** Which nodes are kept free of new Pods, and which Pods that are on their way are given up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  HOST_SILENCE_MAX_MS,
  NODE_AVOIDED_MAX_MS,
  NODES_AVOIDED_MAX,
  POD_BACK_MAX_MS,
  POD_UNBEGUN_MAX_MS,
} from "../../src/domain/limits.ts";
import { nodesToAvoid, type OnNode, whyGivenUp } from "../../src/domain/lost-nodes.ts";
import { decidePools } from "../../src/domain/pool-plan.ts";
import type { Pool, PoolHost } from "../../src/domain/pools.ts";

const lost = (node: string, lostMs: number): OnNode => ({ node, lostMs, isHeard: false });
const heard = (node: string): OnNode => ({ node, isHeard: true });

test("A node whose agent is silent is avoided, for as long as Kubernetes may not know", () => {
  assert.deepEqual(nodesToAvoid([lost("n1", POD_BACK_MAX_MS - 1)]), []);
  assert.deepEqual(nodesToAvoid([lost("n1", POD_BACK_MAX_MS), heard("n2")]), ["n1"]);
  assert.deepEqual(nodesToAvoid([lost("n1", POD_BACK_MAX_MS + NODE_AVOIDED_MAX_MS)]), ["n1"]);
  assert.deepEqual(nodesToAvoid([lost("n1", POD_BACK_MAX_MS + NODE_AVOIDED_MAX_MS + 1)]), []);
  assert.deepEqual(nodesToAvoid([lost("n2", 9_000), lost("n1", 9_000), lost("n2", 9_000)]), ["n1", "n2"]);
});

test("An agent that is heard says that its node lives, whatever others there do", () => {
  assert.deepEqual(nodesToAvoid([lost("n1", 9_000), heard("n1")]), []);
  assert.deepEqual(nodesToAvoid([{ isHeard: false, lostMs: 9_000 }, heard("n2")]), [], "no node is known");
});

test("A node whose kubelet begins no Pod is avoided, also where an agent is heard", () => {
  const unbegun = (unbegunMs: number): OnNode => ({ node: "n1", unbegunMs });
  assert.deepEqual(nodesToAvoid([unbegun(POD_UNBEGUN_MAX_MS - 1)]), []);
  assert.deepEqual(nodesToAvoid([unbegun(POD_UNBEGUN_MAX_MS), heard("n1")]), ["n1"]);
});

test("No more nodes are avoided than a Pod may name", () => {
  const many = Array.from({ length: NODES_AVOIDED_MAX + 5 }, (_, n) => lost(`n${n}`, 9_000));
  assert.equal(nodesToAvoid(many).length, NODES_AVOIDED_MAX);
});

test("A Pod that is on its way is given up when its node is lost, or its kubelet does not begin it", () => {
  const coming: OnNode = { node: "n1" };
  assert.equal(whyGivenUp(coming, [coming, lost("n1", HOST_SILENCE_MAX_MS - 1)]), undefined);
  assert.match(whyGivenUp(coming, [coming, lost("n1", HOST_SILENCE_MAX_MS)]) ?? "", /node n1 does not answer/);
  assert.equal(whyGivenUp(coming, [coming, lost("n2", HOST_SILENCE_MAX_MS)]), undefined);
  assert.equal(whyGivenUp({ node: "n1", unbegunMs: POD_UNBEGUN_MAX_MS }, []), undefined);
  assert.match(whyGivenUp({ node: "n1", unbegunMs: POD_UNBEGUN_MAX_MS + 1 }, []) ?? "", /kubelet of its node n1/);
});

test("A Pod that waits for a node because of one that it is kept from is made anew when that may be used again", () => {
  const waits: OnNode = { avoids: ["n1"] };
  assert.equal(whyGivenUp(waits, [waits, lost("n1", 9_000)]), undefined);
  assert.match(whyGivenUp(waits, [waits, heard("n1")]) ?? "", /may be used again/);
  assert.equal(whyGivenUp({ ...waits, node: "n2" }, [heard("n1")]), undefined, "it has a node");
  assert.equal(whyGivenUp({}, []), undefined);
});

test("What is made in place of a lost Pod is kept from its node, and one that was on its way there is deleted", () => {
  const pool: Pool = {
    ...{ name: "a", vcpus: 2, memoryGb: 4, gpus: 0, gpuProduct: "", warm: 2, idleMs: 600_000, max: 10 },
    ...{ trust: "environment", volumes: false },
  };
  const host = (pod: string, changes: Partial<PoolHost>): PoolHost => ({
    ...{ pod, pool: "a", state: "here", forMs: 0, holder: "", shares: [], problems: new Map() },
    ...changes,
  });
  const hosts = [
    host("p1", { state: "away", forMs: 16_000, ...lost("n1", 16_000) }),
    host("p2", { state: "coming", node: "n1" }),
    host("p3", heard("n2")),
  ];
  assert.deepEqual(decidePools([pool], hosts, []), [{ kind: "delete", pod: "p2", why: "its node n1 does not answer" }]);
  assert.deepEqual(decidePools([pool], [hosts[0]!, hosts[2]!], []), [{ kind: "make", pool, count: 1, avoids: ["n1"] }]);
});
