/** JSON-like data as Python source: what `repr` would print, with one item a line where nested. */
export type PythonData =
  | string
  | number
  | boolean
  | null
  | readonly PythonData[]
  | { readonly [key: string]: PythonData };

const LINE_CHARS = 100;

export function pythonLiteral(data: PythonData, indent = ""): string {
  const flat = oneLine(data);
  if (typeof data !== "object" || data === null || indent.length + flat.length <= LINE_CHARS) return flat;
  const inner = `${indent}    `;
  if (isList(data)) {
    return `[\n${data.map((item) => `${inner}${pythonLiteral(item, inner)},\n`).join("")}${indent}]`;
  }
  const lines = Object.entries(data).map(([key, item]) => `${inner}${quoted(key)}: ${pythonLiteral(item, inner)},\n`);
  return `{\n${lines.join("")}${indent}}`;
}

function oneLine(data: PythonData): string {
  if (data === null) return "None";
  if (typeof data === "boolean") return data ? "True" : "False";
  if (typeof data === "number") return String(data);
  if (typeof data === "string") return quoted(data);
  if (isList(data)) return `[${data.map(oneLine).join(", ")}]`;
  return `{${Object.entries(data)
    .map(([key, item]) => `${quoted(key)}: ${oneLine(item)}`)
    .join(", ")}}`;
}

/** A JSON string is a Python string too, once what is not ASCII is escaped Python's way. */
function quoted(text: string): string {
  return JSON.stringify(text).replace(/[\u{7f}-\u{10ffff}]/gu, (char) => {
    const code = char.codePointAt(0)!;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function isList(data: PythonData): data is readonly PythonData[] {
  return Array.isArray(data);
}
