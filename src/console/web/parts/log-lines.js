/** What workers print, as it comes. */
import { clock } from "../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { connection, lines, onConnection } from "../platform.js";

/** Older lines go. */
const KEPT = 2_000;
/** Lines come in bursts: they are drawn together. */
const GATHER_MS = 150;
const AGAIN_MS = 2_000;
const CONTROL = /\u001b\[[0-9;?]*[A-Za-z]|[\u0000-\u0008\u000b-\u001f\u007f]/g;

/** {lines, error, clear} of `/logs…&follow=1`; follows again when the platform was away. */
export function useLogLines(path, { paused = false } = {}) {
  const [state, set] = useState({ path, lines: [], error: undefined });
  const held = useRef(paused);
  held.current = paused;
  useEffect(() => {
    const over = new AbortController();
    let kept = [];
    let timer;
    let count = 0;
    const show = () => {
      timer = undefined;
      if (held.current) timer = setTimeout(show, GATHER_MS);
      else set({ path, lines: kept, error: undefined });
    };
    const take = (line) => {
      if (line === "") return;
      kept = [...kept.slice(-KEPT + 1), { n: count++, ...JSON.parse(line) }];
      timer ??= setTimeout(show, GATHER_MS);
    };
    const follow = async () => {
      while (!over.signal.aborted && connection() !== "ended") {
        try {
          kept = [];
          for await (const line of lines(path, over.signal)) take(line);
        } catch (error) {
          if (over.signal.aborted) return;
          if (error.code !== "AWAY") set((before) => ({ ...before, path, error }));
          if (error.code === "BAD_INPUT" || error.code === "ENDPOINT_NOT_FOUND" || error.code === "FORBIDDEN") return;
        }
        await new Promise((resolve) => {
          const wait = setTimeout(resolve, AGAIN_MS);
          const stop = onConnection((now) => {
            if (now !== "up") return;
            clearTimeout(wait);
            stop();
            resolve();
          });
        });
      }
    };
    set({ path, lines: [], error: undefined });
    follow();
    return () => {
      over.abort();
      clearTimeout(timer);
    };
  }, [path]);
  return state.path === path ? state : { lines: [], error: undefined };
}

/** `nameOf(endpointId)`: said before each line. Stays at its end while the reader is there. */
export function LogLines({ log, nameOf, empty = "Nothing was printed yet.", onJob }) {
  const box = useRef(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log.lines]);
  const scrolled = ({ target }) => {
    atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 40;
  };
  if (log.error !== undefined) return html`<p class="problem" role="alert">${log.error.message}</p>`;
  if (log.lines.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div class="log" role="log" aria-label="Lines" tabindex="0" ref=${box} onScroll=${scrolled}>
    ${log.lines.map(
      ({ n, at, endpoint, job, level, text }) => html`<div key=${n} class="line" data-level=${level}>
        <time>${clock(at)}</time>
        ${nameOf && html`<span class="from">${nameOf(endpoint)}</span>`}
        ${onJob && job && html`<button type="button" class="quiet" title=${`Only job ${job}`} onClick=${() => onJob(job)}>job</button>`}
        <span class="text">${text.replace(CONTROL, "")}</span>
      </div>`,
    )}
  </div>`;
}
