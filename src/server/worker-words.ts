/** What workers say outside of jobs: what they print, and why they could not start. */
import { SvcError } from "../domain/errors.ts";
import { isLiveName } from "../domain/names.ts";
import type { BootFailure } from "../domain/worker-protocol.ts";
import type { LogStore } from "../logs/log-store.ts";
import type { SecretValues } from "../logs/secret-values.ts";
import type { createEndpointCache } from "../store/caches.ts";
import type { Store } from "../store/store.ts";
import type { LogPart } from "../worker-link/pull/job-lines.ts";
import { bootError } from "../worker-link/worker-link.ts";

interface WordsNeeds {
  readonly rowOf: Store["workers"]["find"];
  readonly endpoints: ReturnType<typeof createEndpointCache>;
  readonly secrets: SecretValues;
  readonly logs: LogStore;
}

export class WorkerWords {
  readonly #needs: WordsNeeds;

  constructor(needs: WordsNeeds) {
    this.#needs = needs;
  }

  async printed(workerId: string, stream: "stdout" | "stderr", parts: readonly LogPart[]): Promise<void> {
    const { rowOf, logs } = this.#needs;
    const row = await rowOf(workerId);
    if (row === undefined) return;
    for (const part of parts) logs.append({ endpointId: row.endpointId, workerId, jobId: "", stream, ...part });
  }

  /** The failure as it is shown and kept; undefined: nobody knows the worker any more. */
  async bootFailed(workerId: string, failure: BootFailure): Promise<SvcError | undefined> {
    const { rowOf, endpoints, secrets, logs } = this.#needs;
    const row = await rowOf(workerId);
    const endpoint = row && (await endpoints.find(row.endpointId));
    if (endpoint === undefined) return undefined;
    // What user code raises may hold a secret that it was given, and this error is shown by `svc status`.
    const { code, message, help = "" } = bootError(endpoint.name, failure);
    const masked = (text: string) => secrets.mask(endpoint.id, text);
    if (isLiveName(endpoint.name)) {
      const text = masked(help === "" ? message : `${message}\n${help}`);
      logs.append({ endpointId: endpoint.id, workerId, jobId: "", stream: "stderr", text });
    }
    return new SvcError(code, masked(message), { help: masked(help) });
  }
}
