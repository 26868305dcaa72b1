/**
 * What `svc deploy` takes, as a whole command: five endpoints for the first time, again with nothing changed, after a change
 * of one line (also until the new code answers), and the same under 500 MB of dependencies.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { atMost, type Bench, Seen } from "./bench.ts";
import { type Environment, SVC, timed, writeFiveEndpoints } from "./cli.ts";
import { LARGE_WHEELS, largeWheels } from "./large-wheels.ts";
import { type BenchPlatform, startPlatform } from "./processes.ts";

export const bench: Bench = async ({ rounds }) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const platform = await startPlatform();
  const seen = new Seen();
  const { note } = seen;
  const env = {
    ...process.env,
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    SVC_CONFIG_DIR: path.join(dir, "config"),
    SVC_CACHE_DIR: path.join(dir, "cache"),
  };
  try {
    for (let round = 0; round < rounds; round++) {
      const project = path.join(dir, `five-${round}`);
      writeFiveEndpoints(project, "0");
      note("first deploy ms", await timed(SVC, ["deploy"], project, env));
      for (let again = 0; again < 3; again++) {
        note("node -e 0 ms", await timed(process.execPath, ["-e", "0"], project, env));
        note("deploy, nothing changed ms", await timed(SVC, ["deploy"], project, env));
      }
      await edit(platform, project, env, [], `round ${round}`, "deploy, one line changed", note);
      note("undeploy --all ms", await timed(SVC, ["undeploy", "--all", "--force"], project, env));
    }
    const wheels = await largeWheels();
    const offline = { ...env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels, PIP_NO_CACHE_DIR: "1" };
    const project = path.join(dir, "large");
    writeFiveEndpoints(project, "0", LARGE_WHEELS);
    note("first deploy, 500 MB newly installed ms", await timed(SVC, ["deploy"], project, offline));
    for (let round = 0; round < rounds; round++)
      await edit(platform, project, offline, LARGE_WHEELS, `round ${round}`, "deploy, one line under 500 MB", note);
  } finally {
    await platform.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  const figures = seen.medians();
  const unchanged = figures["deploy, nothing changed ms"]!;
  figures["nothing changed / node -e 0"] = unchanged / figures["node -e 0 ms"]!;
  figures["first deploy / unchanged"] = figures["first deploy ms"]! / unchanged;
  figures["one line / unchanged"] = figures["deploy, one line changed ms"]! / unchanged;
  return {
    conditions: { endpoints: "4 queue-based, 1 load-balanced", platform: "embedded, same machine" },
    figures,
    bars: {
      "deploy, nothing changed": atMost(unchanged, 250, " ms"),
      "deploy, one line under 500 MB": atMost(figures["deploy, one line under 500 MB ms"]!, 1000, " ms"),
    },
  };
};

/** Deploys a change, and asks two endpoints until both give the new marker. */
async function edit(
  platform: BenchPlatform,
  project: string,
  env: Environment,
  dependencies: readonly string[],
  marker: string,
  figure: string,
  note: Seen["note"],
): Promise<void> {
  writeFiveEndpoints(project, marker, dependencies);
  const started = performance.now();
  note(`${figure} ms`, await timed(SVC, ["deploy"], project, env));
  const { myself } = await platform.query<{ myself: { endpoints: { name: string; app: string; url: string }[] } }>(
    "{ myself { endpoints { name app url } } }",
  );
  const own = myself.endpoints.filter(({ app }) => app === path.basename(project));
  const url = (name: string) => own.find((endpoint) => endpoint.name === name)!.url;
  const headers = { authorization: `Bearer ${platform.key}`, "content-type": "application/json" };
  const answers = async (address: string, init: RequestInit) =>
    (await (await fetch(address, { ...init, headers })).text()).includes(`"${marker}"`);
  while (!(await answers(`${url("first")}/runsync`, { method: "POST", body: '{"input":{}}' })));
  while (!(await answers(`${url("api")}/marker`, {})));
  note(`${figure}, until the new code answers ms`, performance.now() - started);
}
