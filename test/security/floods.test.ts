/** A function that writes to its worker's own link, past the SDK, as fast as it can. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LINK_BURST_BYTES, LINK_FRAME_COST_BYTES, LINK_RATE_BYTES_PER_S } from "../../src/domain/limits.ts";
import { project, startPlatform } from "../e2e/platform.ts";

/** Sent and not read yet: what fits into the buffers on the way. */
const ON_THE_WAY = 100_000;

const FILES = {
  "worker.py": `
import gc, time
from svc import Endpoint, context
from svc._runtime.link.connection import Connection
from svc._runtime.link.protocol import LOG, PROGRESS, encode

@Endpoint(name="flooder", workers=(0, 1))
def flooder(kind):
    link = next(found for found in gc.get_objects() if isinstance(found, Connection))
    frame = {
        "lines": encode(LOG, 0, None, b"x"),
        "updates": encode(PROGRESS, context().channel, None, b"1"),
        "nonsense": encode(77, 0),
    }[kind]
    sent = 0
    began = time.monotonic()
    while time.monotonic() - began < 4:
        link.send(frame * 1000)
        sent += 1000
    return {"sent": sent, "seconds": time.monotonic() - began}

@Endpoint(name="victim", workers=(0, 1))
def victim(n):
    return n
`,
};

test("A function that floods its worker's link is held up, and all others are served", async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, FILES) });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const endpoints = await platform.endpoints();
  const urlOf = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!.url;
  const run = async (name: string, input: object) =>
    (await platform.call(`${urlOf(name)}/runsync?wait=120000`, { body: { input } })).json;

  for (const kind of ["lines", "updates", "nonsense"]) {
    const flood = run("flooder", { kind });
    for (let n = 0; n < 20; n++) assert.equal((await run("victim", { n })).output, n);
    const { status, output, error } = await flood;
    assert.equal(status, "COMPLETED", error);
    // Its clock is the platform's. A machine under load only makes it less.
    const most = (LINK_BURST_BYTES + LINK_RATE_BYTES_PER_S * output.seconds) / LINK_FRAME_COST_BYTES + ON_THE_WAY;
    assert.ok(output.sent <= most, `${output.sent} ${kind} in ${output.seconds} s`);
  }
});
