import type { Terminal } from "../terminal.ts";

/** Text as text; anything else as JSON, on one line where many come. */
export function showResult(terminal: Terminal, value: unknown, form: "whole" | "line"): void {
  if (typeof value === "string") terminal.out(value);
  else if (form === "whole") terminal.json(value);
  else terminal.out(JSON.stringify(value));
}
