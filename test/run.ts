/**
 * Runs every test file (or those whose path contains an argument) in parallel and closes with
 * `N passed, N failed`. Only tests count, not the suites around them.
 */
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { setUp } from "./set-up.ts";

const root = path.resolve(import.meta.dirname, "..");
const wanted = process.argv.slice(2);
const files = globSync("test/**/*.test.ts", { cwd: root })
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .sort((a, b) => Number(b.includes("e2e")) - Number(a.includes("e2e")) || a.localeCompare(b))
  .map((file) => path.join(root, file));
if (files.length === 0) {
  console.error(`No test file matches ${wanted.join(" ")}.`);
  process.exit(1);
}

const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const failedFiles = new Set<string>();
const started = performance.now();
const tearDown = await setUp(files);
const events = run({ files, concurrency: Math.max(2, availableParallelism()), timeout: 180_000, cwd: root });

events.on("test:pass", (event) => {
  if (event.details.type === "suite" || isFile(event.name)) return;
  if (event.skip !== undefined) {
    counts.skipped += 1;
    console.log(`skipped: ${event.name} (${event.skip === true ? "no reason given" : event.skip})`);
  } else counts.passed += 1;
});
events.on("test:fail", (event) => {
  const error = event.details.error as Error & { cause?: unknown };
  // A suite or a file fails with its tests; it counts only when it failed by itself, as one that cannot be loaded does.
  if (event.details.type === "suite" && /subtests? failed/.test(error.message)) return;
  const file = path.resolve(root, isFile(event.name) ? event.name : (event.file ?? ""));
  if (isFile(event.name) && /test failed/.test(error.message) && failedFiles.has(file)) return;
  failedFiles.add(file);
  counts.failed += 1;
  const cause =
    error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause ?? error.message);
  const where = path.relative(root, event.file ?? "");
  failures.push(`✗ ${where}: ${event.name}\n${cause.replace(/^/gm, "    ")}`);
  console.log(failures.at(-1));
});
events.on("test:stderr", (event) => process.stderr.write(event.message));
events.on("end", () => {
  if (counts.failed > 0) console.log(`\nFailed:\n${failures.map((text) => text.split("\n")[0]).join("\n")}`);
  console.log(`\n${files.length} files in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
  console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
  void tearDown();
});
events.resume();

function isFile(name: string): boolean {
  return name.endsWith(".test.ts");
}
