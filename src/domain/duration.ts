const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 24 * 3_600_000 };

/** Milliseconds of "500ms", "2s", "1.5m", "1h", "7d"; undefined for another text. */
export function durationMs(text: string): number | undefined {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim()) ?? [];
  return amount === undefined ? undefined : Math.round(Number(amount) * UNITS_MS[unit!]!);
}

/** "500ms", "90s", "5m", "2h", "1d": the largest unit that it is a whole number of. */
export function durationText(ms: number): string {
  const [unit, size] = Object.entries(UNITS_MS).findLast(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}
