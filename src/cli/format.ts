/** "2026-11-21 08:43": local time, for lists. */
export function dateTime(ms: number): string {
  return `${date(ms)} ${clockTime(ms).slice(0, 5)}`;
}

/** "08:43:12", local time. */
export function clockTime(ms: number): string {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

function date(ms: number): string {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** "12 B", "3.4 kB", "1.5 GB": decimal, as the artifact's limit is. */
export function formatSize(bytes: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
