/** Lines over time, drawn by uPlot. What the picture shows is said in words beside it. */
import { html, useEffect, useRef, useState } from "../html.js";

const HEIGHT = 220;

/**
 * `series`: {label, tone, values, unit, stepped, fill}; `at`: milliseconds since the epoch, one for each value. `format`: how a value
 * is read; `formatNewest`: how the newest is, which is read as what is so now.
 */
export function Chart({ label, at, series, format = String, formatNewest = format, height = HEIGHT }) {
  const box = useRef(null);
  const plot = useRef(undefined);
  const dark = useScheme();
  const shape = JSON.stringify([series.map(({ label: name, tone, stepped }) => [name, tone, stepped]), dark, height]);
  const data = [at.map((ms) => ms / 1000), ...series.map(({ values }) => values)];
  const latest = useRef(data);
  latest.current = data;
  const say = useRef(format);
  say.current = format;
  useEffect(() => {
    const element = box.current;
    const { ink, line } = colours(element);
    const axis = {
      stroke: ink,
      grid: { stroke: line, width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const options = {
      width: Math.max(200, element.clientWidth),
      height,
      padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, (max ?? 1) * 1.1)] } },
      axes: [
        {
          ...axis,
          size: 28,
          space: 70,
          values: (_plot, ticks, _axis, _space, step) => ticks.map((tick) => timeOf(tick, step)),
        },
        { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => say.current(tick)) },
      ],
      series: [
        {},
        ...series.map(({ label: name, tone, fill, stepped: isStepped }) => {
          const stroke = colour(element, tone);
          return {
            label: name,
            stroke,
            width: 2,
            points: { show: false },
            ...(fill && { fill: `color-mix(in srgb, ${stroke} 14%, transparent)` }),
            ...(isStepped && { paths: stepped }),
          };
        }),
      ],
      hooks: { setCursor: [(one) => setAt(one.cursor.idx)] },
    };
    const made = new uPlot(options, latest.current, element);
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: Math.max(200, element.clientWidth), height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [JSON.stringify(data)]);

  const [pointed, setAt] = useState(undefined);
  const shownAt = pointed != null && pointed < at.length ? pointed : undefined;
  const newest = (values) => values.findLast((value) => value != null);
  return html`<figure class="chart" aria-label=${label}>
    <div ref=${box} aria-hidden="true"></div>
    <figcaption>
      <span class="soft">${shownAt === undefined ? "now" : timeOf(at[shownAt] / 1000, 1)}</span>
      ${series.map(({ label: name, tone, values }) => {
        const [value, read] = shownAt === undefined ? [newest(values), formatNewest] : [values[shownAt], format];
        return html`<span key=${name} class="legend" data-tone=${tone}>${name} <b>${value == null ? "–" : read(value)}</b></span>`;
      })}
      <span class="unseen">
        ${series.map(({ label: name, values }) => `${name}: at most ${format(Math.max(0, ...values.filter((one) => one != null)))}. `)}
      </span>
    </figcaption>
  </figure>`;
}

/** A small line in a row of a table. */
export function Spark({ values, label }) {
  const known = values.map((value) => value ?? 0);
  const max = Math.max(1, ...known);
  const points = known.map((value, at) => `${(at / Math.max(1, known.length - 1)) * 100},${22 - (value / max) * 20}`);
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polyline points=${points.join(" ")} />
  </svg>`;
}

function useScheme() {
  const [dark, set] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const read = () => set(scheme.matches);
    scheme.addEventListener("change", read);
    return () => scheme.removeEventListener("change", read);
  }, []);
  return dark;
}

/** As the style sheet says it now: a canvas knows no variables. */
function colour(element, tone) {
  const probe = document.createElement("i");
  probe.dataset.tone = tone;
  probe.className = "probe";
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function colours(element) {
  return { ink: colour(element, "soft"), line: colour(element, "line") };
}

function timeOf(seconds, step) {
  const date = new Date(seconds * 1000);
  if (step >= 86_400) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  return date.toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    ...(step < 60 && { second: "2-digit" }),
    hour12: false,
  });
}
