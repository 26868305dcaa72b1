/**
 * Inside a test file's process: writes what became of each test to SVC_TEST_REPORT, a line of JSON each, at once: a file
 * that is killed has reported all that happened.
 */
import { writeFileSync } from "node:fs";
import type { TestEvent } from "node:test/reporters";
import { inspect } from "node:util";
import { recentLogs } from "./test-logs.ts";

export interface ReportedTest {
  readonly kind: "started" | "passed" | "failed" | "skipped";
  readonly name: string;
  /** The file that holds the test. */
  readonly file: string;
  /** Of a failure or a skip. */
  readonly text?: string;
  /** Of a failure: the last lines of the logs that were written meanwhile. */
  readonly logs?: string;
}

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const file = process.env.SVC_TEST_REPORT!;
  const say = (test: ReportedTest) => writeFileSync(file, `${JSON.stringify(test)}\n`, { flag: "a" });
  for await (const event of source) {
    if (event.type !== "test:pass" && event.type !== "test:fail" && event.type !== "test:dequeue") continue;
    const { name, file: where = "" } = event.data;
    if (event.type === "test:dequeue") {
      if (event.data.type !== "suite") say({ kind: "started", name, file: where });
      continue;
    }
    const { details, skip } = event.data;
    if (event.type === "test:fail") {
      const { error } = event.data.details;
      // A suite fails with its tests; it counts only when it failed by itself.
      if (details.type === "suite" && /subtests? failed/.test(error.message)) continue;
      say({ kind: "failed", name, file: where, text: told(error), logs: recentLogs(details.duration_ms) });
    } else if (details.type !== "suite") {
      const reason = skip === true || skip === "" ? "no reason given" : String(skip);
      say(
        skip === undefined
          ? { kind: "passed", name, file: where }
          : { kind: "skipped", name, file: where, text: reason },
      );
    }
  }
  yield "";
}

function told(error: Error & { cause?: unknown }): string {
  const { cause } = error;
  if (cause instanceof Error) {
    const deeper = cause.cause === undefined ? "" : `\ncaused by: ${inspect(cause.cause)}`;
    return (cause.stack ?? cause.message) + deeper;
  }
  return String(cause ?? error.message);
}
