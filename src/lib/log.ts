/** Log lines for operators: one line each on stderr, `time level message key=value …`. */
export interface Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export function createLog(write: (line: string) => void, clock: () => Date): Log {
  const line = (level: string, message: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const pairs = given.map(([key, value]) => ` ${key}=${shown(value)}`);
    write(`${clock().toISOString()} ${level} ${message}${pairs.join("")}\n`);
  };
  return {
    info: (message, fields) => line("info", message, fields),
    error: (message, fields) => line("error", message, fields),
  };
}

function shown(value: unknown): string {
  if (value instanceof Error) return JSON.stringify(value.stack ?? value.message);
  return typeof value === "string" && /^[\w./:-]+$/.test(value) ? value : JSON.stringify(value);
}
