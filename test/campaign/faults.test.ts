import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { inflict, pidOf } from "./faults.ts";
import { Subject } from "./subject.ts";

const PROJECT = {
  "who.py": `
import os
from svc import Endpoint

@Endpoint(name="who", workers=(1, 1), idle_timeout=60)
def who():
    return ${OWN_PID}
`,
};

test("what is done to a worker is done to the process that runs jobs, not to the spare beside it", async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root may look into another process's connections");
  const subject = await Subject.start();
  try {
    const urls = await subject.set(PROJECT);
    const ask = async () => {
      const { status, json, text } = await subject.ask(`${urls.who}/runsync`, { input: {} });
      assert.deepEqual([status, json.status], [200, "COMPLETED"], text);
      return hostPid(json.output);
    };
    const processes = { driver: "processes", platform: subject.pid, dataDir: subject.dataDir } as const;
    const pick = () => pidOf("worker", processes, Math.random);
    const worker = await ask();
    assert.equal(await pick(), worker);

    const stopped = inflict("stopped", worker!, processes, 1_000);
    let over = false;
    const end = () => {
      over = true;
    };
    stopped.then(end, end);
    let stood = false;
    for (; !over && !stood; await delay(5)) stood = /\) T /.test(readFileSync(`/proc/${worker}/stat`, "latin1"));
    assert.deepEqual([stood, await stopped], [true, true]);
    assert.ok(await inflict("out of descriptors", worker!, processes, 50));
    assert.ok(await inflict("link cut", worker!, processes, 0), "it holds the link");
    assert.equal(await ask(), worker, "it came back over a new link");
    assert.equal(await pick(), worker);

    assert.ok(await inflict("killed", worker!, processes, 0));
    assert.notEqual(await ask(), worker, "another one runs jobs now");
  } finally {
    await subject.close();
  }
});
