/** Endpoints that another platform has now: their requests are sent there, and their workers have nothing to seek here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { parseHead } from "../../src/lib/frames.ts";
import { openLink } from "./link-rig.ts";

test("Who waits for an endpoint that moved is sent on, so is who comes later, and a worker of it is refused", async (t) => {
  const others = new Set<string>();
  const isMine = (id: string) => !others.has(id);
  const rig = await openLink(t, { kind: "load-balanced" }, {}, undefined, isMine);
  const { endpoint } = rig;
  const waits = assert.rejects(rig.request(Buffer.alloc(0)), { code: "MOVED" });
  rig.link().endpointsMoved();
  assert.equal(rig.link().sample(endpoint.id).waitingRequests, 1, "it has not moved");
  others.add(endpoint.id);
  rig.link().endpointsMoved();
  await waits;
  await assert.rejects(rig.request(Buffer.alloc(0)), { code: "MOVED" });
  const peer = await rig.dial();
  peer.hello((await rig.addWorker()).token);
  const { reason } = parseHead<{ reason: string }>(await peer.next(FRAME.REFUSED));
  assert.equal(reason, "another platform has its endpoint");
});
