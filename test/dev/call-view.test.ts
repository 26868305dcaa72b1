import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import picocolors from "picocolors";
import { timingText } from "../../src/client/timing-text.ts";
import { CallView, type ShownCall } from "../../src/dev/call-view.ts";
import type { Screen } from "../../src/dev/screen.ts";
import { tempDir } from "../e2e/platform.ts";

function view(t: TestContext) {
  const dir = tempDir(t);
  const lines: string[] = [];
  const colors = picocolors.createColors(false);
  const screen = { colors, errColors: colors, out: (line = "") => lines.push(line) } as unknown as Screen;
  return { dir, lines, view: new CallView(screen, dir) };
}

const CALL: ShownCall = { method: "POST", url: "/a/runsync", status: 200, ms: 12.4, timing: undefined, job: undefined };

test("a call is one line: method, path, status, time and where the time went", (t) => {
  const { view: shown, lines } = view(t);
  const timing = "queue;dur=25.04, boot;dur=9.31, import;dur=0, exec;dur=0.218";
  shown.call({ ...CALL, timing, job: { status: "COMPLETED" } });
  assert.deepEqual(lines, ["POST /a/runsync 200 in 12 ms (queue 25, boot 9.3, exec 0.2)"]);
  assert.equal(timingText("queue;dur=0.03, exec;dur=120.6"), "exec 121");
});

test("a traceback in the log of a failed job is not shown beside the job's own", (t) => {
  const { view: shown, lines } = view(t);
  const line = { at: 1, worker: "w", job: "j", stream: "stderr", level: "info" } as const;
  shown.line("a", { ...line, text: "before" });
  for (const text of ["[svc] job j failed:", "Traceback (most recent call last):", "ValueError: x"]) {
    shown.line("a", { ...line, level: "error", text });
  }
  shown.line("a", { ...line, job: "k", level: "error", text: "ERROR of another" });
  assert.deepEqual(lines, ["a │ before", "a │ ERROR of another"]);
});

test("a failed job is shown as failed, with the line of the user's file", (t) => {
  const { view: shown, lines, dir } = view(t);
  writeFileSync(path.join(dir, "a.py"), "one\n    raise ValueError('x')\n");
  const traceback = 'Traceback (most recent call last):\n  File "a.py", line 2, in f\n    raise\nValueError: x\n';
  const error = JSON.stringify({ error_type: "ValueError", error_message: "x", error_traceback: traceback });
  shown.call({ ...CALL, job: { status: "FAILED", error } });
  assert.equal(lines[0], "POST /a/runsync 200 FAILED in 12 ms");
  assert.match(
    lines[1]!,
    /^ {2}error\[ValueError\]: x\n {4}--> a\.py:2:5\n.*\n {3}2 \| {5}raise ValueError\('x'\)\n.*\^{21}$/,
  );
});

test("an error that names no file of the project, or is no JSON, is shown as it is", (t) => {
  const { view: shown, lines } = view(t);
  const error_traceback = 'File "/etc/passwd", line 1, in x';
  const error = JSON.stringify({ error_type: "OSError", error_message: "no", error_traceback });
  shown.call({ ...CALL, job: { status: "FAILED", error } });
  shown.call({ ...CALL, job: { status: "FAILED", error: "not today" } });
  assert.deepEqual([lines[1], lines[3]], [`  OSError: no\n  ${error_traceback}`, "  not today"]);
});

test("what workers print stands behind the endpoint's name, progress with its own mark", (t) => {
  const { view: shown, lines } = view(t);
  const line = { at: 1, worker: "w", job: "j", stream: "stdout" as const, text: "hello" };
  shown.line("a", line);
  shown.line("a", { ...line, stream: "progress", text: "0.5" });
  assert.deepEqual(lines, ["a │ hello", "a » 0.5"]);
});
