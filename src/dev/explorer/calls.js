/**
 * The calls made from the explorer: one for each operation, the last. An answer is read here as it comes, beside
 * Swagger UI, which sees it at its end. A job that waits or runs is followed until it is final.
 */

const FINAL = ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"];
const TEXTUAL = /^text\/|[/+]json\b|[/+]xml\b|ndjson|jsonl|javascript|x-www-form-urlencoded/;
const TEXT_SHOWN_MAX_CHARS = 200_000;
const EVENTS_SHOWN_MAX = 1000;
const FOLLOW_FIRST_MS = 100;
const FOLLOW_MAX_MS = 1000;

/**
 * @typedef {object} Call
 * @property {"waiting" | "streaming" | "done" | "failed" | "stopped"} phase
 * @property {number} startedAt Of performance.now()
 * @property {number} [endedAt]
 * @property {number} [status] Of HTTP
 * @property {Record<string, string>} headers
 * @property {string} text What has come, when it is text
 * @property {{ at: number, data: string, event: string }[] | undefined} events Of a text/event-stream
 * @property {number} bytes
 * @property {boolean} cut The beginning is not kept any more
 * @property {unknown} [json] Of a whole JSON answer
 * @property {object} [job] The newest state of the job the call made or asked about
 * @property {(id: string) => string} [cancel] The address that cancels the job
 * @property {string} [problem] Why there is no answer
 * @property {import("./code-examples.js").Sent} sent
 * @property {{ lines: { stream: string, text: string }[], cut: boolean }} [printed] By the function
 */

export class Calls {
  #calls = new Map();
  #listeners = new Set();
  #stops = new Map();
  #drawn = false;

  /** @param {() => void} listener */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** @returns {Call | undefined} */
  get(key) {
    return this.#calls.get(key);
  }

  /** By key. */
  all() {
    return this.#calls.entries();
  }

  stop(key) {
    this.#stops.get(key)?.abort();
  }

  clear(key) {
    this.stop(key);
    this.#calls.delete(key);
    this.#tell();
  }

  /** Asks for the end of the job that the call follows; what becomes of it is shown as everything else. */
  cancelJob(key) {
    const { cancel, job } = this.#calls.get(key);
    fetch(cancel(job.id), { method: "POST" }).catch(() => {});
  }

  /**
   * Does what `fetch` does, and shows the answer meanwhile.
   * `follow` and `cancel` give the addresses of a job's state and its cancelling; undefined when the call makes none.
   */
  async fetch(key, url, options, { isJob, prints, follow, cancel }) {
    this.stop(key);
    const stop = new AbortController();
    this.#stops.set(key, stop);
    const { method, headers, body } = options;
    const call = {
      sent: { url: new URL(url, location).href, method: method ?? "GET", headers: { ...headers }, body },
      phase: "waiting",
      startedAt: performance.now(),
      headers: {},
      text: "",
      bytes: 0,
      cut: false,
      cancel,
    };
    this.#set(key, call);
    try {
      const id = callId();
      const response = await fetch(url, {
        ...options,
        headers: { ...headers, "X-Svc-Call": id },
        signal: stop.signal,
      });
      call.status = response.status;
      call.headers = Object.fromEntries(response.headers);
      if (response.body === null) {
        this.#end(key, call, "done");
        if (prints) this.#printed(key, call, id);
        return response;
      }
      const [shown, given] = response.body.tee();
      const end = async () => {
        await this.#read(key, call, shown, stop.signal);
        if (isJob) await this.#job(key, call, follow, stop.signal);
        if (prints) await this.#printed(key, call, id);
      };
      end();
      return new Response(given, {
        status: response.status,
        statusText: response.statusText,
        headers: response.headers,
      });
    } catch (error) {
      this.#fail(key, call, error);
      throw error;
    }
  }

  async #read(key, call, body, signal) {
    const type = call.headers["content-type"] ?? "";
    const isText = TEXTUAL.test(type);
    const events = type.startsWith("text/event-stream") ? new EventLines() : undefined;
    call.events = events && [];
    const decoder = new TextDecoder();
    try {
      for await (const chunk of body) {
        call.phase = "streaming";
        call.bytes += chunk.length;
        if (isText) {
          const text = decoder.decode(chunk, { stream: true });
          this.#append(call, text, events?.add(text));
        }
        this.#set(key, call);
      }
      if (/[/+]json\b/.test(type) && !call.cut) call.json = parsed(call.text);
      this.#end(key, call, "done");
    } catch (error) {
      this.#fail(key, call, signal.aborted ? signal.reason : error);
    }
  }

  #append(call, text, events = []) {
    call.text += text;
    if (call.text.length > TEXT_SHOWN_MAX_CHARS && !/json/.test(call.headers["content-type"])) {
      call.text = call.text.slice(-TEXT_SHOWN_MAX_CHARS / 2);
      call.cut = true;
    }
    const at = performance.now() - call.startedAt;
    call.events?.push(...events.map((event) => ({ at, ...event })));
    if (call.events?.length > EVENTS_SHOWN_MAX) {
      call.events.splice(0, call.events.length - EVENTS_SHOWN_MAX);
      call.cut = true;
    }
  }

  /** Shows the job of an answer and asks for its state until that is final. */
  async #job(key, call, follow, signal) {
    const { id, status } = call.json ?? {};
    call.job = typeof id === "string" && typeof status === "string" && call.status === 200 ? call.json : undefined;
    this.#set(key, call);
    for (
      let pause = FOLLOW_FIRST_MS;
      this.#isOpen(call) && follow && !signal.aborted;
      pause = Math.min(pause * 2, FOLLOW_MAX_MS)
    ) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (signal.aborted || this.#calls.get(key) === undefined) return;
      try {
        const response = await fetch(follow(call.job.id), { signal });
        if (!response.ok) return;
        call.job = { ...call.job, ...parsed(await response.text()) };
      } catch {
        continue; // the server restarts
      }
      call.endedAt = performance.now();
      this.#set(key, call);
    }
  }

  /** The server gives it out once no more comes. */
  async #printed(key, call, id) {
    try {
      const response = await fetch(`/docs/calls/${id}`);
      if (!response.ok) return;
      call.printed = await response.json();
      this.#set(key, call);
    } catch {
      // The server has ended: what is shown above says so.
    }
  }

  #isOpen({ job }) {
    return job !== undefined && !FINAL.includes(job.status);
  }

  #fail(key, call, error) {
    if (error?.name === "AbortError") return this.#end(key, call, "stopped");
    call.problem =
      call.status === undefined
        ? "No answer came. Is svc run still running?"
        : "The connection broke off before the end: the function failed on the way, or its worker was lost.";
    this.#end(key, call, "failed");
  }

  #end(key, call, phase) {
    call.phase = phase;
    call.endedAt = performance.now();
    this.#set(key, call);
  }

  #set(key, call) {
    // A call that another has replaced, or that was cleared, is not shown any more.
    const known = this.#calls.get(key);
    if (call.phase !== "waiting" && known?.startedAt !== call.startedAt) return;
    this.#calls.set(key, { ...call });
    this.#tell();
  }

  /** At most once a frame; a page that is not looked at has no frames. */
  #tell() {
    if (this.#drawn) return;
    this.#drawn = true;
    const draw = () => {
      this.#drawn = false;
      for (const listener of this.#listeners) listener();
    };
    if (document.hidden) setTimeout(draw, 100);
    else requestAnimationFrame(draw);
  }
}

/** Nobody else can guess it. A page of plain HTTP has no crypto.randomUUID. */
function callId() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Cuts a text/event-stream into its events. */
class EventLines {
  #rest = "";

  add(text) {
    const blocks = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = blocks.pop();
    return blocks.filter((block) => block.trim() !== "").map((block) => this.#event(block));
  }

  #event(block) {
    const lines = block.split(/\r?\n/);
    const values = (field) =>
      lines.flatMap((line) => (line.startsWith(`${field}:`) ? [line.slice(field.length + 1)] : []));
    const strip = (value) => value.replace(/^ /, "");
    return { data: values("data").map(strip).join("\n"), event: values("event").map(strip).join("") };
  }
}

/** Numbers keep the digits they came with: Python's 1.0 is no 1, and its ints have no end. */
function parsed(text) {
  const asWritten = (_key, value, { source } = {}) =>
    typeof value === "number" && source !== undefined && String(value) !== source ? JSON.rawJSON(source) : value;
  try {
    return JSON.parse(text, "rawJSON" in JSON ? asWritten : undefined);
  } catch {
    return undefined;
  }
}

export function isFinal(status) {
  return FINAL.includes(status);
}
