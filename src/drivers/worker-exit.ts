import type { ExitedHead } from "../domain/worker-protocol.ts";
import type { WorkerExit } from "./worker-driver.ts";

/** What a launcher said of a worker's end, with its cause in words. */
export function workerExit({ worker, code, signal, reason, cause }: ExitedHead): WorkerExit {
  const words = signal !== null ? `killed by ${signal}` : `exited with code ${code}`;
  return { workerId: worker, code, signal, reason: reason ?? words, cause };
}
