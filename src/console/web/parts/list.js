/**
 * A table whose rows are drawn only where they are seen: a thousand endpoints and a hundred thousand jobs cost what a screen of them
 * costs. Rows are about of one height; a narrow screen folds the cells of a
 * row, so it is measured.
 */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

const AROUND = 12;
/** Rows of a narrow screen are not all alike: what differs less is not measured anew. */
const SLACK_PX = 4;
/** Shorter lists are drawn whole. */
const WHOLE_MAX = 60;

/**
 * `columns`: {title, cell(row), wide (not on narrow screens), className}. `onEnd`: the last rows are near: more may be fetched. `onSeen`: told
 * the rows that are drawn.
 */
export function List({ label, columns, rows, keyOf = ({ id }) => id, onEnd, onSeen, empty = "Nothing here." }) {
  const table = useRef(null);
  const [height, setHeight] = useState(44);
  const [[from, until], setSpan] = useState([0, WHOLE_MAX]);
  const whole = rows.length <= WHOLE_MAX;

  useLayoutEffect(() => {
    const seenRows = table.current?.querySelectorAll("tbody tr[data-row]") ?? [];
    if (seenRows.length === 0) return;
    const top = seenRows[0].getBoundingClientRect().top;
    const measured = (seenRows[seenRows.length - 1].getBoundingClientRect().bottom - top) / seenRows.length;
    if (measured > 0 && Math.abs(measured - height) > SLACK_PX) setHeight(measured);
  });
  useEffect(() => {
    const look = () => {
      const body = table.current?.tBodies[0];
      if (body === undefined) return;
      const above = -body.getBoundingClientRect().top / height;
      const first = Math.max(0, Math.floor(above) - AROUND);
      const last = Math.ceil(above + innerHeight / height) + AROUND;
      setSpan((before) => (before[0] === first && before[1] === last ? before : [first, last]));
      if (last >= rows.length) onEnd?.();
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [rows, height, onEnd]);

  const [begin, end] = whole ? [0, rows.length] : [Math.min(from, rows.length), Math.min(until, rows.length)];
  const drawn = rows.slice(begin, end);
  const seen = drawn.map(keyOf).join(" ");
  useEffect(() => onSeen?.(drawn), [seen]);
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<table class="list" ref=${table} aria-label=${label} aria-rowcount=${rows.length + 1}>
    <thead>
      <tr>${columns.map(({ title, className }) => html`<th key=${title} scope="col" class=${className}>${title}</th>`)}</tr>
    </thead>
    <tbody>
      <${Space} key="above" rows=${begin} height=${height} columns=${columns.length} />
      ${drawn.map(
        (row, at) =>
          html`<tr key=${keyOf(row)} data-row aria-rowindex=${begin + at + 2}>
            ${columns.map(
              ({ title, cell, className }) =>
                html`<td key=${title} data-title=${title} class=${className}>${cell(row)}</td>`,
            )}
          </tr>`,
      )}
      <${Space} key="below" rows=${rows.length - end} height=${height} columns=${columns.length} />
    </tbody>
  </table>`;
}

function Space({ rows, height, columns }) {
  if (rows <= 0) return null;
  return html`<tr aria-hidden="true" class="space"><td colspan=${columns} style=${{ height: `${rows * height}px` }}></td></tr>`;
}

/** The end of a list that has further pages. */
export function More({ pages }) {
  if (!pages.hasMore) return null;
  return html`<p class="more">
    <button type="button" disabled=${pages.loading} onClick=${pages.loadMore}>${pages.loading ? "…" : "Older"}</button>
  </p>`;
}
