import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { INLINE_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { openTestQueue } from "./open-queue.ts";

const CHILD = join(import.meta.dirname, "crash-child.ts");

for (const durability of ["normal", "full"] as const) {
  test(`a process killed in the middle loses no accepted job and no accepted result (durability ${durability})`, async () => {
    const under = await openTestQueue({ now: Date.now() }, durability);
    try {
      under.database.close();
      const child = spawn(process.execPath, [CHILD, under.dir, durability], { stdio: ["ignore", "pipe", "inherit"] });
      const accepted = new Map<string, string>();
      for await (const line of createInterface({ input: child.stdout })) {
        const [id, state] = line.split(" ") as [string, string];
        accepted.set(id, state);
        if (accepted.size === 500) child.kill("SIGKILL");
      }
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      assert.equal(child.signalCode, "SIGKILL");
      assert.ok(accepted.size >= 500);

      await under.reopen();
      for (const [id, state] of accepted) {
        const job = await under.queue.find(id);
        if (state === "COMPLETED") assert.equal(job?.state, "COMPLETED", id);
        else assert.ok(job?.state === "IN_QUEUE" || job?.state === "IN_PROGRESS" || job?.state === "COMPLETED", id);
        const input = await under.queue.input(id);
        assert.equal(input?.byteLength, expectedBytes(id), `input of ${id}`);
      }
    } finally {
      await under.close();
    }
  });
}

/** The child makes every tenth input too large for a row. */
function expectedBytes(id: string): number {
  return Number(id.split("-")[1]) % 10 === 0 ? INLINE_BODY_MAX_BYTES + 10 : 10;
}
