/** Imported before a test file: tells the guard when the last test is over. What still runs then may not keep the file for long. */
import { after } from "node:test";
import { isMainThread } from "node:worker_threads";

const guard = Number(process.env.SVC_TEST_GUARD);
// A thread of a test imports it too.
if (isMainThread && guard > 0) after(() => process.kill(guard, "SIGUSR1"));
