/** How grave a printed line is, from its words; a worker's printing says no more. */
export const LOG_LEVELS = ["debug", "info", "warning", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Words of Python's logging and warnings, where a line says them: near its beginning. */
const WORDS = /\b(DEBUG)\b|\b(INFO)\b|(\bWARN(?:ING)?\b|Warning:|^\[svc\])|\b(ERROR|CRITICAL|FATAL)\b/;
const HEAD_CHARS = 120;
const TRACEBACK = /^(?:Traceback \(most recent call last\):|\[svc\] job \S+ failed:)/;

/** Levels of lines that were printed together: one without a word goes with the line before it, as those of a traceback do. */
export function levelsOf(texts: readonly string[]): LogLevel[] {
  let level: LogLevel = "info";
  return texts.map((text) => {
    level = ownLevel(text) ?? level;
    return level;
  });
}

export function atLeast(level: LogLevel, least: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);
}

function ownLevel(text: string): LogLevel | undefined {
  if (TRACEBACK.test(text)) return "error";
  const found = WORDS.exec(text.slice(0, HEAD_CHARS));
  if (found === null) return undefined;
  return LOG_LEVELS[found.slice(1).findIndex((word) => word !== undefined)];
}
