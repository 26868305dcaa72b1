/** The browser that tests look at pages with. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { openBrowser } from "./browser.ts";

/** The inodes of this process's descendants' sockets. */
function socketsBelow(pid: number): { processes: number; inodes: Set<string> } {
  const below = new Set([pid]);
  const inodes = new Set<string>();
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  // A child's number is above its parent's, but for once around.
  for (const child of [...all, ...all].map(Number)) {
    try {
      const stat = readFileSync(`/proc/${child}/stat`, "latin1");
      if (!below.has(Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]))) continue;
      below.add(child);
      for (const fd of readdirSync(`/proc/${child}/fd`)) {
        const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${child}/fd/${fd}`))?.[1];
        if (inode !== undefined) inodes.add(inode);
      }
    } catch {
      // It has ended, or closed it.
    }
  }
  return { processes: below.size - 1, inodes };
}

test("Networks that come and go on the machine change nothing for the pages of a browser: it does not hear of them", async (t) => {
  const browser = await openBrowser(t);
  if (browser === undefined) return;
  const page = await browser.newPage();
  await page.goto("data:text/html,<h1>here</h1>");
  await page.getByRole("heading", { name: "here" }).waitFor();
  const { processes, inodes } = socketsBelow(process.pid);
  assert.ok(processes > 1 && inodes.size > 0);
  const netlink = readFileSync("/proc/net/netlink", "utf8").split("\n").slice(1);
  assert.deepEqual(
    netlink.filter((line) => inodes.has(line.trim().split(/\s+/).at(-1) ?? "")),
    [],
  );
});
