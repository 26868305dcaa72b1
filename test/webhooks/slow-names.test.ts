/** Whoever owns a domain decides how long its names take: webhooks to such names must not keep the platform from the names it needs. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { removeFolder } from "../remove-folder.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
const skip =
  process.platform === "linux" && process.getuid?.() === 0 ? false : "needs root to give a process its own name server";
const NAME_SERVER = "127.53.53.53";
const TYPE_A = 1;

/** Asks for more slow names than any pool of threads has, then for one of its own. */
const PROGRAM = `
import { lookup } from "node:dns/promises";
import { postWebhook } from ${JSON.stringify(path.join(ROOT, "src/webhooks/request.ts"))};
const webhooks = Array.from({ length: 32 }, (_, n) =>
  postWebhook({ url: "http://n" + n + ".slow.test/", headers: {}, body: Buffer.alloc(0), signal: AbortSignal.timeout(60_000), allowPrivate: process.argv[2] === "private" })
    .then(() => "reached", () => "a webhook is over"));
await new Promise(setImmediate);
console.log(await Promise.race([lookup("database.fast.test", { family: 4 }).then(({ address }) => address), ...webhooks]));
process.exit(0);
`;

/** Answers for names below fast.test, and for no other. */
async function startNameServer() {
  const server = createSocket("udp4");
  server.on("message", (query, from) => {
    if (!query.includes("\x04fast\x04test\x00")) return;
    const end = query.indexOf(0, 12) + 5;
    const isA = query.readUInt16BE(end - 4) === TYPE_A;
    const head = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])]);
    const answer = Buffer.from([0xc0, 12, 0, TYPE_A, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    server.send(Buffer.concat([head, query.subarray(12, end), ...(isA ? [answer] : [])]), from.port, from.address);
  });
  server.bind(53, NAME_SERVER);
  await once(server, "listening");
  return server;
}

for (const which of ["public", "private"]) {
  test(`names of webhooks that nobody answers for keep no other name from being found (${which} receivers)`, {
    skip,
  }, async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), "svc-names-"));
    const server = await startNameServer();
    t.after(async () => {
      server.close();
      await removeFolder(dir);
    });
    const file = (name: string, text: string) => {
      writeFileSync(path.join(dir, name), text);
      return path.join(dir, name);
    };
    const resolv = file("resolv.conf", `nameserver ${NAME_SERVER}\n`);
    const program = file("program.mjs", PROGRAM);
    const command = 'mount --bind "$1" /etc/resolv.conf && exec "$2" "$3" "$4"';
    const { stdout } = await promisify(execFile)("unshare", [
      "-m",
      "sh",
      "-c",
      command,
      "sh",
      resolv,
      process.execPath,
      program,
      which,
    ]);
    assert.equal(stdout, "192.0.2.1\n");
  });
}
