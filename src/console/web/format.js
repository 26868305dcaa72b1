/** Times, durations, sizes and numbers as they are read. */

/** 4 ms, 1.25 s, 3 min, 2 h, 5 d. */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 0.05) return "0 ms";
  if (ms < 10 && ms % 1 !== 0) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120 * 60_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 48 * 3_600_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

const TIME = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** The time of today; with the day of another. */
export function clock(at) {
  if (at == null) return "–";
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? TIME.format(date) : `${DAY.format(date)} ${TIME.format(date)}`;
}

export function since(at) {
  return at == null ? "–" : duration(Math.max(0, Date.now() - at));
}

export function number(value, digits = 0) {
  return value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function bytes(count) {
  if (count == null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = count;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at++;
  }
  return `${value < 10 && at > 0 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** An id's beginning, which is told apart well enough in a list. */
export function shortId(id) {
  return id.length > 18 ? `${id.slice(0, 18)}…` : id;
}
