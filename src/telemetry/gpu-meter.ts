/**
 * How busy the machine's GPUs are, as nvidia-smi says. It takes up to seconds, and hangs where a driver does: whoever reads gets what was
 * last said at once, and one program at most runs beside.
 */
import { execFile } from "node:child_process";
import { GPU_FRESH_MS, GPU_OUTPUT_MAX_BYTES, GPU_SAMPLE_MAX_MS, GPU_SAMPLE_MS } from "../domain/limits.ts";
import { promisify } from "../lib/parts-of-node.ts";

const QUERY = ["--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits"];
const MIB_PER_GB = 1024;

export interface GpuUse {
  /** Name of the host that it is in; absent: the platform's own machine. */
  readonly host?: string;
  /** As nvidia-smi counts them. */
  readonly index: number;
  /** Part of the time that something ran on it, 0 to 1; null where the driver does not say, as of one that is cut in parts. */
  readonly busy: number | null;
  /** GB in use, by whomever; null where the driver does not say. */
  readonly memoryGb: number | null;
}

interface GpuMeterDeps {
  /** Milliseconds of a clock that is never set. */
  readonly now: () => number;
  /** For the platform's log. */
  told(line: string, facts?: Readonly<Record<string, unknown>>): void;
}

export class GpuMeter {
  readonly #deps: GpuMeterDeps;
  readonly #closing = new AbortController();
  #last: { readonly at: number; readonly gpus: readonly GpuUse[] } | undefined;
  #askedAt: number | undefined;
  #asking = false;
  #failing = false;

  constructor(deps: GpuMeterDeps) {
    this.#deps = deps;
  }

  /** What was last measured; empty when that was too long ago, or never. */
  read(): readonly GpuUse[] {
    const now = this.#deps.now();
    if (!this.#asking && now - (this.#askedAt ?? Number.NEGATIVE_INFINITY) >= GPU_SAMPLE_MS) {
      this.#askedAt = now;
      this.#asking = true;
      this.#ask().finally(() => {
        this.#asking = false;
      });
    }
    return this.#last !== undefined && now - this.#last.at < GPU_FRESH_MS ? this.#last.gpus : [];
  }

  close(): void {
    this.#closing.abort();
  }

  /** Never rejects. */
  async #ask(): Promise<void> {
    const limits = { timeout: GPU_SAMPLE_MAX_MS, maxBuffer: GPU_OUTPUT_MAX_BYTES, killSignal: "SIGKILL" as const };
    try {
      const { stdout } = await promisify(execFile)("nvidia-smi", QUERY, { ...limits, signal: this.#closing.signal });
      this.#last = { at: this.#deps.now(), gpus: stdout.split("\n").flatMap(gpuOf) };
      this.#failing = false;
    } catch (error) {
      if (!this.#failing && !this.#closing.signal.aborted)
        this.#deps.told("nvidia-smi does not say how busy the GPUs are: it is missing in the metrics", { error });
      this.#failing = true;
    }
  }
}

/** `0, 37, 12045`; what the driver does not know stands as `[N/A]`. */
function gpuOf(line: string): GpuUse[] {
  const [index, percent, mib] = line.split(",").map((field) => Number.parseFloat(field));
  if (index === undefined || !Number.isInteger(index)) return [];
  const known = (value: number | undefined) => (value !== undefined && Number.isFinite(value) ? value : null);
  const [busy, used] = [known(percent), known(mib)];
  if (busy === null && used === null) return [];
  return [{ index, busy: busy && busy / 100, memoryGb: used && used / MIB_PER_GB }];
}
