/** The last calls of this tab, newest first, kept over a reload. */

const KEY = "svc-calls";
const CALLS_MAX = 20;

/**
 * @typedef {object} Past
 * @property {string} path Of the operation
 * @property {string} method
 * @property {string} shown Path and query that were called
 * @property {import("./repeat.js").Input} [input] Undefined: it cannot be repeated
 * @property {number} at Milliseconds since the epoch
 * @property {string} [state]
 * @property {string} [tone]
 */

export class History {
  #calls = read();
  #listeners = new Set();

  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  all = () => this.#calls;

  /** @param {Omit<Past, "at">} call */
  add(call) {
    const past = { ...call, at: Date.now() };
    this.#set([past, ...this.#calls].slice(0, CALLS_MAX));
  }

  /** What became of the newest call of the operation. */
  end(path, method, state, tone) {
    const at = this.#calls.findIndex((each) => each.path === path && each.method === method);
    const past = this.#calls[at];
    if (past === undefined || past.state === state) return;
    this.#set(this.#calls.with(at, { ...past, state, tone }));
  }

  clear() {
    this.#set([]);
  }

  #set(calls) {
    this.#calls = calls;
    try {
      sessionStorage.setItem(KEY, JSON.stringify(calls));
    } catch {
      // A browser that keeps nothing: the calls are there until the reload.
    }
    for (const listener of this.#listeners) listener();
  }
}

function read() {
  try {
    const calls = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(calls) ? calls.slice(0, CALLS_MAX) : [];
  } catch {
    return [];
  }
}
