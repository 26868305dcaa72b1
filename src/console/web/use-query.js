/** Data of the platform in a component: asked for, kept while it is asked for again, and asked for again when it may have changed. */
import { useEffect, useRef, useState } from "./html.js";
import { onChange } from "./live.js";
import { query } from "./platform.js";

const EVERY_MS = 10_000;
/** When the platform was away. */
const AGAIN_MS = 1_500;
/** Changes come in bursts: they are looked at together. */
const GATHER_MS = 400;
/** What takes long to answer is asked for again after as many times as long, so that a large platform is not kept busy by who looks at it. */
const REST = 5;

/**
 * `load(signal)` gives the data; `key` names what it is of: another key begins anew. `topics`: what changes it.
 * Gives {data, error, reload}; data is undefined until it is there.
 */
export function useData(key, load, { topics = [], every = EVERY_MS } = {}) {
  const [state, set] = useState({ key, data: undefined, error: undefined });
  const latest = useRef(load);
  latest.current = load;
  const again = useRef(() => {});
  useEffect(() => {
    const over = new AbortController();
    let timer;
    let running = false;
    let soon = false;
    let asked = false;
    let soonest = 0;
    const run = async () => {
      clearTimeout(timer);
      if (running) {
        asked = true;
        return;
      }
      running = true;
      soon = false;
      asked = false;
      let isAway = false;
      const began = performance.now();
      try {
        const data = await latest.current(over.signal);
        if (!over.signal.aborted) set({ key, data, error: undefined });
      } catch (error) {
        isAway = error.code === "AWAY";
        if (!over.signal.aborted) set((before) => ({ key, data: before.key === key ? before.data : undefined, error }));
      }
      running = false;
      const took = performance.now() - began;
      soonest = performance.now() + Math.min(every, Math.max(GATHER_MS, REST * took));
      if (!over.signal.aborted) timer = setTimeout(look, isAway ? AGAIN_MS : asked ? untilSoonest() : every);
    };
    const untilSoonest = () => Math.max(GATHER_MS, soonest - performance.now());
    const look = () => {
      if (document.hidden) timer = setTimeout(look, every);
      else run();
    };
    const stop = onChange((topic) => {
      if (topic !== "all" && !topics.includes(topic)) return;
      // What comes again and again must not put off for ever what it asks for.
      if (running || soon) asked = true;
      else {
        clearTimeout(timer);
        soon = true;
        timer = setTimeout(run, topic === "all" ? 0 : untilSoonest());
      }
    });
    again.current = run;
    run();
    return () => {
      over.abort();
      clearTimeout(timer);
      stop();
    };
  }, [key]);
  const isOf = state.key === key;
  return { data: isOf ? state.data : undefined, error: isOf ? state.error : undefined, reload: () => again.current() };
}

export function useQuery(document, variables, options) {
  const key = JSON.stringify([document, variables]);
  return useData(key, (signal) => query(document, variables, signal), options);
}

/**
 * Pages of a list, newest first: `load(after, signal)` gives {rows, next}, each row with an id of its own. The first page is asked for
 * again and again; what is new in it goes above what was fetched.
 */
export function usePages(key, load, options) {
  const first = useData(key, (signal) => load(undefined, signal), options);
  const none = { key, fetched: undefined, next: undefined, error: undefined, loading: false };
  const [more, setMore] = useState(none);
  const own = more.key === key ? more : none;
  const rows = first.data && joined(first.data.rows, own.fetched);
  const next = own.fetched === undefined ? first.data?.next : own.next;
  const loadMore = async () => {
    if (own.loading || next == null) return;
    setMore({ ...own, loading: true });
    try {
      const page = await load(next);
      setMore({ key, fetched: [...rows, ...page.rows], next: page.next, error: undefined, loading: false });
    } catch (error) {
      setMore({ ...own, error, loading: false });
    }
  };
  const { error = own.error, reload } = first;
  return { rows, hasMore: next != null, loadMore, loading: own.loading, error, reload };
}

/** Nothing is left out between: a first page that is wholly new is not put above the rest. */
function joined(fresh, fetched) {
  if (fetched === undefined) return fresh;
  const known = new Map(fresh.map((row) => [row.id, row]));
  const meets = fetched.some(({ id }) => known.has(id));
  const older = fetched.map((row) => known.get(row.id) ?? row);
  if (!meets) return older;
  return [...fresh, ...older.filter(({ id }) => !known.has(id))];
}
