import type { Node } from "web-tree-sitter";
import { type PythonModule, parts, textOf } from "./python-module.ts";
import type { Value } from "./value.ts";

type FoldedString = { readonly value: string } | { readonly why: string };

/** The text of a string literal, of adjacent literals, or of an f-string whose parts are constants. */
export function foldString(module: PythonModule, node: Node, fold: (node: Node) => Value): FoldedString {
  if (node.type === "concatenated_string") {
    let value = "";
    for (const part of parts(node)) {
      const folded = foldString(module, part, fold);
      if ("why" in folded) return folded;
      value += folded.value;
    }
    return { value };
  }
  const start = node.namedChildren.find((child) => child.type === "string_start");
  const prefix = start === undefined ? "" : textOf(module, start).toLowerCase();
  if (prefix.includes("b")) return { why: "it is bytes, not text" };
  if (prefix.includes("t")) return { why: "it is a template, not text" };
  const format = prefix.includes("f");
  let value = "";
  for (const child of node.namedChildren) {
    if (child.type === "string_content") value += content(textOf(module, child), prefix.includes("r"), format);
    if (child.type !== "interpolation") continue;
    const shown = interpolated(child, fold);
    if ("why" in shown) return shown;
    value += shown.value;
  }
  return { value };
}

function interpolated(node: Node, fold: (node: Node) => Value): FoldedString {
  const expression = node.childForFieldName("expression");
  const special = node.namedChildren.some((c) => c.type === "format_specifier" || c.type === "type_conversion");
  if (expression === null || special) return { why: "it formats a value with ! or :" };
  const value = fold(expression);
  if (value.kind === "string") return { value: value.value };
  if (value.kind === "boolean") return { value: value.value ? "True" : "False" };
  if (value.kind === "none") return { value: "None" };
  if (value.kind === "number") {
    return { value: value.float && Number.isInteger(value.value) ? `${value.value}.0` : String(value.value) };
  }
  return { why: value.kind === "unknown" ? value.why : "the f-string holds a value that is not plain text" };
}

const SIMPLE: Record<string, string> = {
  "\n": "",
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

const ESCAPE = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g;

function content(raw: string, verbatim: boolean, format: boolean): string {
  const text = verbatim
    ? raw
    : raw.replace(ESCAPE, (whole, x, u, wide, octal, single) => {
        const hex = x ?? u ?? wide;
        const code =
          hex === undefined ? (octal === undefined ? undefined : Number.parseInt(octal, 8)) : Number.parseInt(hex, 16);
        if (code !== undefined) return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
        return SIMPLE[single] ?? whole;
      });
  return format ? text.replaceAll("{{", "{").replaceAll("}}", "}") : text;
}

/** A docstring the way `inspect.cleandoc` shows it. */
export function cleanDoc(text: string): string {
  const lines = text.replaceAll("\t", "        ").split("\n");
  const indents = lines.slice(1).flatMap((line) => (line.trim() === "" ? [] : [line.search(/\S/)]));
  const margin = Math.min(...indents);
  const cleaned = [
    lines[0]!.trimStart(),
    ...lines.slice(1).map((line) => (indents.length > 0 ? line.slice(margin) : line)),
  ];
  while (cleaned.length > 0 && cleaned.at(-1)!.trim() === "") cleaned.pop();
  while (cleaned.length > 0 && cleaned[0]!.trim() === "") cleaned.shift();
  return cleaned.join("\n");
}
