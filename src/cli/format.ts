/** "2026-11-21 08:43": local time, for lists. */
export function dateTime(ms: number): string {
  return `${date(ms)} ${clockTime(ms).slice(0, 5)}`;
}

/** "08:43:12", local time. */
export function clockTime(ms: number): string {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

export function date(ms: number): string {
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

/** "1.2 GB of 20.0 GB"; "" before the volume was measured. */
export function volumeSizeText(volume: {
  readonly sizeBytes: number | null;
  readonly limitBytes: number | null;
}): string {
  const limit = volume.limitBytes === null ? "" : ` of ${formatSize(volume.limitBytes)}`;
  return volume.sizeBytes === null ? "" : `${formatSize(volume.sizeBytes)}${limit}`;
}

/** "340 ms", "3.2 s", "4 min 10 s", "2 h 5 min". */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** "12 s", "4 min", "3 h", "2 d": how long ago, or for how long. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}
