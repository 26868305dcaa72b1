/**
 * The Pods of a release as the API server tells of them: listed, then watched.
 *
 *   list ──▶ watch from its version ──ended──▶ watch from the last version heard (bookmarks count)
 *     ▲            └──410, or it is time──▶ list         └──cannot be reached──▶ pause, doubling ──▶ the same
 *
 * What was known stays known while the API server is away.
 */
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import {
  KUBERNETES_ANSWER_MAX_MS,
  KUBERNETES_EVENT_MAX_BYTES,
  KUBERNETES_LISTED_MAX,
  KUBERNETES_RELIST_MS,
  KUBERNETES_RETRY_FIRST_MS,
  KUBERNETES_RETRY_MAX_MS,
  KUBERNETES_SILENCE_MAX_MS,
  KUBERNETES_WATCH_S,
} from "../domain/limits.ts";
import { ApiRefusal, type KubernetesApi } from "./api.ts";
import { type Pod, readPod } from "./pod.ts";

interface PodWatchOptions {
  readonly api: Pick<KubernetesApi, "ask" | "open" | "namespace">;
  /** As a label selector has it. */
  readonly selector: string;
  readonly changed: () => void;
  /** It cannot be reached, or refuses; undefined: it answers again. */
  readonly troubled: (trouble: string | undefined) => void;
}

const listed = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
});
const happened = z.object({ type: z.string(), object: z.unknown() });
const versioned = z.object({ metadata: z.object({ resourceVersion: z.string() }) });
const failed = z.object({ code: z.number().optional(), message: z.string().optional(), reason: z.string().optional() });

export class PodWatch {
  readonly #options: PodWatchOptions;
  readonly #pods = new Map<string, Pod>();
  readonly #over = new AbortController();
  #running: Promise<void> | undefined;
  #isKnown = false;
  #lists = 0;
  /** The last one heard of; undefined: all is to be listed. */
  #version: string | undefined;
  /** Before the next try; grows until something is heard. */
  #pauseMs = 0;

  constructor(options: PodWatchOptions) {
    this.#options = options;
  }

  /** They were listed at least once. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** How often they were listed. */
  get lists(): number {
    return this.#lists;
  }

  get pods(): readonly Pod[] {
    return [...this.#pods.values()];
  }

  /** What the API server answered to a request is known before the watch tells of it. */
  note(pod: Pod): void {
    if (!this.#pods.has(pod.metadata.uid)) this.#pods.set(pod.metadata.uid, pod);
  }

  start(): void {
    this.#running ??= this.#run();
    this.#running.catch(() => {}); // It ends by close() alone.
  }

  async close(): Promise<void> {
    this.#over.abort();
    await this.#running?.catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#over;
    let listedAt = Number.NEGATIVE_INFINITY;
    while (!signal.aborted) {
      try {
        if (this.#version === undefined || performance.now() - listedAt > KUBERNETES_RELIST_MS) {
          await this.#list();
          listedAt = performance.now();
        }
        await this.#watch();
        if (this.#pauseMs === 0) continue;
      } catch (error) {
        if (signal.aborted) return;
        // What it remembers does not reach back so far: all is read anew.
        if (error instanceof ApiRefusal && error.status === 410) this.#version = undefined;
        else this.#options.troubled(wordsOf(error));
      }
      this.#pauseMs = Math.min(KUBERNETES_RETRY_MAX_MS, Math.max(KUBERNETES_RETRY_FIRST_MS, this.#pauseMs * 2));
      await delay(this.#pauseMs, undefined, { signal }).catch(() => {});
    }
  }

  get #where(): string {
    const { api, selector } = this.#options;
    return `/api/v1/namespaces/${api.namespace}/pods?labelSelector=${encodeURIComponent(selector)}`;
  }

  async #list(): Promise<void> {
    const { signal } = this.#over;
    const pods: Pod[] = [];
    let version = "";
    // All parts are as it was at the first.
    for (let next: string | undefined = ""; next !== undefined; ) {
      const part = `${this.#where}&limit=${KUBERNETES_LISTED_MAX}&continue=${encodeURIComponent(next)}`;
      const { metadata, items } = listed.parse(await this.#options.api.ask("GET", part, { signal }));
      pods.push(...items.map(readPod));
      version = metadata.resourceVersion;
      next = metadata.continue || undefined;
    }
    this.#pods.clear();
    for (const pod of pods) this.#pods.set(pod.metadata.uid, pod);
    this.#version = version;
    this.#isKnown = true;
    this.#lists++;
    this.#options.troubled(undefined);
    this.#options.changed();
  }

  /** One watch, until it ends. Throws when it cannot begin or is cut; a new one goes on from what was heard of. */
  async #watch(): Promise<void> {
    const silence = new AbortController();
    const signal = AbortSignal.any([this.#over.signal, silence.signal]);
    let timer: NodeJS.Timeout | undefined;
    const heard = (maxMs = KUBERNETES_SILENCE_MAX_MS) => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error("it was silent for too long")), maxMs).unref();
    };
    heard(KUBERNETES_ANSWER_MAX_MS);
    try {
      const options = `watch=1&allowWatchBookmarks=true&timeoutSeconds=${KUBERNETES_WATCH_S}&resourceVersion=${this.#version}`;
      // One that ends before anything was heard is not begun anew at once.
      this.#pauseMs = Math.max(KUBERNETES_RETRY_FIRST_MS, this.#pauseMs);
      const answer = await this.#options.api.open(`${this.#where}&${options}`, signal);
      this.#options.troubled(undefined);
      heard();
      let rest = "";
      for await (const part of answer.setEncoding("utf8") as AsyncIterable<string>) {
        heard();
        this.#pauseMs = 0;
        const lines = (rest + part).split("\n");
        rest = lines.pop()!;
        if (rest.length > KUBERNETES_EVENT_MAX_BYTES) throw new Error("an event of the API server is too long");
        for (const line of lines) if (line !== "") this.#happened(JSON.parse(line));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #happened(value: unknown): void {
    const { type, object } = happened.parse(value);
    if (type === "ERROR") {
      const { code = 0, reason = "", message = "" } = failed.parse(object);
      throw new ApiRefusal(code, reason, message);
    }
    const version = versioned.parse(object).metadata.resourceVersion;
    if (type !== "BOOKMARK") {
      const pod = readPod(object);
      if (type === "DELETED") this.#pods.delete(pod.metadata.uid);
      else this.#pods.set(pod.metadata.uid, pod);
      this.#options.changed();
    }
    this.#version = version;
  }
}

function wordsOf(error: unknown): string {
  if (error instanceof ApiRefusal && error.status === 403) return `it refuses: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
