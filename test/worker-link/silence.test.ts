/** Workers that say nothing for long: their function may hold up the whole process, or their machine may be gone. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { connect } from "node:tls";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { Sessions } from "../../src/worker-link/sessions.ts";
import { ping } from "../../src/worker-link/upkeep.ts";
import { newJob } from "../conformance/queue.ts";
import { openLink, Peer } from "./link-rig.ts";

/** Every session that is opened from now on is one of these too. */
function seeSessions(t: TestContext): Set<Sessions> {
  const seen = new Set<Sessions>();
  const open = Sessions.prototype.open;
  t.mock.method(Sessions.prototype, "open", function (this: Sessions, ...given: Parameters<typeof open>) {
    seen.add(this);
    return open.apply(this, given);
  });
  return seen;
}

/** What the link does at its next looks when a minute has passed without a word. */
async function aMinuteLater(t: TestContext, [sessions]: Set<Sessions>, alive: readonly string[] = []) {
  const now = performance.now.bind(performance);
  const later = t.mock.method(performance, "now", () => now() + 60_000);
  for (let look = 0; look < 3; look++) await ping(sessions!, { aliveWorkers: async () => alive });
  later.mock.restore();
}

test("A worker of this machine that says nothing for a minute keeps its job: its function may hold up the whole process", async (t) => {
  const sessions = seeSessions(t);
  const { endpoint, queue, join } = await openLink(t);
  const { peer } = await join();
  const { id } = await queue.enqueue(newJob(endpoint.id));
  const { channel } = await peer.next(FRAME.JOB);
  await aMinuteLater(t, sessions);
  peer.send(FRAME.RESULT, channel, { ok: true, execMs: 1 }, Buffer.from("1"));
  await peer.next(FRAME.ACK);
  const job = await queue.wait(id, 20_000);
  assert.deepEqual([job?.state, job?.retries], ["COMPLETED", 0]);
});

test("A worker of another machine that says nothing is lost with its machine, not while its launcher says that it lives", async (t) => {
  const sessions = seeSessions(t);
  const { endpoint, queue, link, addWorker } = await openLink(t);
  const port = await link().listenTls({ host: "127.0.0.1", port: 0, ...selfSignedCertificate("svc worker link") });
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  t.after(() => socket.destroy());
  await once(socket, "secureConnect");
  const peer = new Peer(socket);
  const worker = await addWorker();
  peer.hello(worker.token);
  peer.send(FRAME.CREDIT, 0, { slots: 1 });
  await peer.next(FRAME.WELCOME);
  await queue.enqueue(newJob(endpoint.id));
  await peer.next(FRAME.JOB);
  await aMinuteLater(t, sessions, [worker.id]);
  await peer.next(FRAME.PING);
  assert.equal(link().isHeard(worker.id), true);
  const now = performance.now.bind(performance);
  const later = t.mock.method(performance, "now", () => now() + 60_000);
  assert.equal(link().isHeard(worker.id), false, "its link is open, and about to be closed");
  later.mock.restore();
  await aMinuteLater(t, sessions);
  await peer.closed;
});
