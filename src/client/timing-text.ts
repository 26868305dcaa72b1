/** "queue;dur=3.1, boot;dur=0, …" → "queue 3, exec 10": what took no time is left out. */
export function timingText(header: string): string {
  const parts = [...header.matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, ms]) => [name!, Number(ms)] as const);
  const shown = parts.filter(([name, ms]) => ms >= 0.5 || name === "exec");
  return shown.map(([name, ms]) => `${name} ${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)}`).join(", ");
}
