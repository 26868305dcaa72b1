/** Timed runs of the CLI as a user starts it, and the project they work on. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { runProcess } from "../src/lib/run-process.ts";
import type { Run } from "./bench.ts";
import { usedMs } from "./processor-time.ts";

export const SVC = path.resolve(import.meta.dirname, "../bin/svc");
export type Environment = Readonly<Record<string, string | undefined>>;

/** Runs a program while no other child of this process ends. Throws with its words when it fails. */
export async function timed(command: string, args: readonly string[], cwd: string, env: Environment): Promise<Run> {
  const ended = () => usedMs(process.pid, true) - usedMs(process.pid);
  const before = ended();
  const started = performance.now();
  const { code, stdout, stderr } = await runProcess(command, args, { cwd, env });
  const ms = performance.now() - started;
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}`);
  return { ms, processorMs: ended() - before };
}

/** Four queue-based endpoints and a load-balanced one; `marker` is what all of them answer. */
export function writeFiveEndpoints(dir: string, marker: string, dependencies: readonly string[] = []): void {
  mkdirSync(dir, { recursive: true });
  const option = dependencies.length === 0 ? "" : `, dependencies=${JSON.stringify(dependencies)}`;
  for (const name of ["first", "second", "third", "fourth"]) {
    writeFileSync(
      path.join(dir, `${name}_worker.py`),
      `from svc import Endpoint\n\nMARKER = "${marker}"\n\n\n@Endpoint(name="${name}", workers=(0, 2)${option})\ndef ${name}(n: int = 1):\n    return {"marker": MARKER, "n": n}\n`,
    );
  }
  writeFileSync(
    path.join(dir, "api_worker.py"),
    `from svc import Endpoint\n\napi = Endpoint(name="api", workers=(0, 2)${option})\n\n\n@api.get("/marker")\ndef marker():\n    return {"marker": "${marker}"}\n\n\n@api.post("/echo")\ndef echo(text: str):\n    return {"text": text}\n`,
  );
}
