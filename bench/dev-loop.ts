/**
 * `svc run`: from a save to the answer of the new code. "At once": the call is sent in the moment the file is written, so it
 * waits for the build, the deploy and a worker that imports the code. "After a pause": a person's hand is on its way to
 * the other window, and all that is over when the call comes. Beside them: a call without a change, and the platform itself.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { atMost, type Bench, Seen } from "./bench.ts";
import { SVC, timed, writeFiveEndpoints } from "./cli.ts";
import { startPlatform } from "./processes.ts";

const PAUSE_MS = 400;
const CALLS = { queue: "/first_worker/runsync", "load-balanced": "/api_worker/marker" } as const;

export const bench: Bench = async ({ rounds }) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const project = path.join(dir, "five");
  const platform = await startPlatform();
  const seen = new Seen();
  const { note } = seen;
  writeFiveEndpoints(project, "start");
  const env = {
    ...process.env,
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    SVC_CONFIG_DIR: path.join(dir, "config"),
    SVC_CACHE_DIR: path.join(dir, "cache"),
  };
  const server = spawn(SVC, ["run", "--port", "0"], { cwd: project, env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    const url = await address(server);
    for (const [kind, route] of Object.entries(CALLS)) {
      const call = async (marker: string) => {
        const started = performance.now();
        const init = kind === "queue" ? { method: "POST", body: '{"input":{}}' } : {};
        const text = await (await fetch(url + route, init)).text();
        if (!text.includes(`"${marker}"`)) throw new Error(`${route} answered with other code than ${marker}: ${text}`);
        return performance.now() - started;
      };
      let marker = `${kind} 0`;
      writeFiveEndpoints(project, marker);
      note(`${kind}, first call: provisioned and run ms`, await call(marker));
      for (let round = 1; round <= rounds * 4; round++) {
        marker = `${kind} ${round}`;
        const started = performance.now();
        writeFiveEndpoints(project, marker);
        await call(marker);
        note(`${kind}, call at once after a save ms`, performance.now() - started);
        // What the machine is worth right now: others may be at work on it.
        note("node -e 0 ms", await timed(process.execPath, ["-e", "0"], project, env));
        for (let again = 0; again < 3; again++) note(`${kind}, call without a change ms`, await call(marker));
        marker = `${kind} ${round} and a pause`;
        writeFiveEndpoints(project, marker);
        await delay(PAUSE_MS);
        note(`${kind}, call after a save and a pause ms`, await call(marker));
      }
    }
  } finally {
    await stop(server);
    await platform.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  const figures = seen.medians();
  for (const kind of Object.keys(CALLS)) {
    const figure = `${kind}, call at once after a save`;
    figures[`${figure} / node -e 0`] = figures[`${figure} ms`]! / figures["node -e 0 ms"]!;
  }
  const bars = Object.keys(CALLS).map((kind) => {
    const figure = `${kind}, call at once after a save`;
    return [figure, atMost(figures[`${figure} ms`]!, 100, " ms")] as const;
  });
  return {
    conditions: { endpoints: "5 declared, 1 to 2 in use", platform: "embedded, same machine", pause: `${PAUSE_MS} ms` },
    figures,
    bars: Object.fromEntries(bars),
  };
};

async function address(server: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: server.stdout! })) {
    const found = /^Listening on (http:\S+),/.exec(line);
    if (found === null) continue;
    server.stdout!.resume();
    return found[1]!.replace("localhost", "127.0.0.1");
  }
  throw new Error("svc run ended before it listened");
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  const ended = once(server, "exit");
  server.kill("SIGINT");
  await ended;
}
