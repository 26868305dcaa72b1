/**
 * Text for a terminal. What workers print and platforms answer is others' text, and a terminal obeys control characters in it:
 * the clipboard is written, the screen cleared, a line above replaced. Colours (SGR) stay, line ends and tabs too; every other
 * control character is shown as its escape.
 */
const SGR = "\\u001b\\[[0-9;:]*m";
const CONTROL = new RegExp(
  `(${SGR})|\\r\\n|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]`,
  "g",
);

export function terminalText(text: string): string {
  return text.replace(CONTROL, (found, color: string | undefined) => {
    if (color !== undefined || found === "\r\n") return found;
    return `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}
