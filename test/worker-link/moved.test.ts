/** Endpoints that another platform has now: their requests are sent there, and their workers have nothing to seek here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { parseHead } from "../../src/lib/frames.ts";
import { newJob } from "../conformance/queue.ts";
import { eventually } from "../eventually.ts";
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

test("A worker that was started before its endpoint came is let in, and gets work when that is here", async (t) => {
  const [others, ahead] = [new Set<string>(), new Set<string>()];
  const seen = { ready: [] as string[], exited: [] as string[] };
  const hooks = {
    ahead: {
      ofToken: () => undefined,
      has: (id: string) => ahead.has(id),
      ready: (id: string) => ahead.has(id),
      exited: (id: string) => seen.exited.push(id),
    },
    workerReady: ({ id }: { readonly id: string }) => seen.ready.push(id),
  };
  const rig = await openLink(t, { kind: "queue" }, hooks, undefined, (id) => !others.has(id));
  others.add(rig.endpoint.id);
  const { id, token } = await rig.addWorker();
  ahead.add(id);
  const peer = await rig.dial();
  peer.hello(token);
  await peer.next(FRAME.WELCOME);
  const { id: jobId } = await rig.queue.enqueue(newJob(rig.endpoint.id));
  peer.send(FRAME.CREDIT, 0, { slots: 1 });
  await eventually(() => assert.equal(rig.link().sample(rig.endpoint.id).workers.length, 1));
  assert.deepEqual([seen.ready, peer.seen.filter(({ type }) => type === FRAME.JOB)], [[], []]);
  assert.deepEqual(
    [...rig.link().served()].map(({ endpointId }) => endpointId),
    [rig.endpoint.id],
  );

  others.clear();
  ahead.clear();
  rig.link().adopted(id);
  rig.link().adopted("w-another");
  assert.equal(parseHead<{ job: string }>(await peer.next(FRAME.JOB)).job, jobId);
  assert.deepEqual(seen.ready, [id]);
  await rig.link().workerExited(id, "it ended");
  assert.deepEqual(seen.exited, [id]);
});
