/**
 * Python that reads files and tells what they declare (python/scan/): it parses and runs nothing of them, knows only what
 * it is sent, and is started at the first question. It stays for the next one, until it is closed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { SCAN_TIMEOUT_MS } from "../domain/limits.ts";
import type { Facts } from "./facts.ts";
import type { Interpreter } from "./interpreter.ts";
import { digestOf } from "./sources.ts";

const PYTHON = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../python" : "../../../python", import.meta.url),
);
const PROGRAM = "import sys; sys.path.append(sys.argv[1]); from scan.main import main; main()";
const NOTES_KEPT_CHARS = 4_096;

/** Python ended or took too long; `file` is what it read last. */
export class ScannerGone extends Error {
  readonly file: string | undefined;

  constructor(why: string, file: string | undefined) {
    super(why);
    this.file = file;
  }
}

interface Question {
  answer(line: string): void;
  fail(why: string): void;
}

export class PythonScanner {
  readonly python: () => Promise<Interpreter>;
  readonly #timeoutMs: number;
  #child: ChildProcess | undefined;
  #waiting: Question[] = [];
  /** The files it read, a line each. */
  #notes = "";
  #closed = false;

  constructor(python: () => Promise<Interpreter>, timeoutMs: number = SCAN_TIMEOUT_MS) {
    this.python = python;
    this.#timeoutMs = timeoutMs;
  }

  /** `request` as Sources.request() makes it. Rejects with ScannerGone. */
  async ask(request: Uint8Array): Promise<Facts> {
    const { executable } = await this.python();
    const child = this.#child ?? this.#start(executable);
    const line = await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => this.#end(child, `took longer than ${this.#timeoutMs / 1000} s`), this.#timeoutMs);
      const settled = () => clearTimeout(timer);
      this.#waiting.push({
        answer: (text) => {
          settled();
          resolve(text);
        },
        fail: (why) => {
          settled();
          reject(new ScannerGone(why, this.#notes.trimEnd().split("\n").at(-1) || undefined));
        },
      });
      child.stdin!.write(`${request.length}\n`);
      child.stdin!.write(request);
    });
    return JSON.parse(line) as Facts;
  }

  close(): void {
    this.#closed = true;
    if (this.#child !== undefined) this.#end(this.#child, "was stopped");
  }

  #start(executable: string): ChildProcess {
    if (this.#closed) throw new ScannerGone("was stopped", undefined);
    const args = ["-I", "-S", "-W", "ignore", "-c", PROGRAM, PYTHON];
    const child = spawn(executable, args, { stdio: ["pipe", "pipe", "pipe"] });
    child.on("error", (error) => this.#end(child, `did not start: ${error.message}`));
    child.on("close", (code, signal) => this.#end(child, `ended with ${signal ?? `exit code ${code}`}`));
    child.stdin.on("error", () => {});
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#notes = (this.#notes + text).slice(-NOTES_KEPT_CHARS);
    });
    createInterface({ input: child.stdout }).on("line", (line) => this.#waiting.shift()?.answer(line));
    this.#child = child;
    return child;
  }

  #end(child: ChildProcess, why: string): void {
    child.kill("SIGKILL");
    if (this.#child !== child) return;
    this.#child = undefined;
    for (const { fail } of this.#waiting.splice(0)) fail(why);
    this.#notes = "";
  }
}

/** Changes with the program that reads the files. */
export function scannerDigest(): string {
  const folder = path.join(PYTHON, "scan");
  const files = readdirSync(folder).filter((name) => name.endsWith(".py"));
  return digestOf(...files.sort().map((name) => readFileSync(path.join(folder, name))));
}
