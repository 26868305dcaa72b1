import type { MarkdownRenderer } from "vitepress";

/** A table row that describes one thing by its name in code (`QUEUE_FULL`, `SVC_HOST`) can be linked: errors.html#QUEUE_FULL. */
export function rowAnchors(md: MarkdownRenderer): void {
  md.core.ruler.push("row-anchors", (state) => {
    const seen = new Set<string>();
    for (const [index, token] of state.tokens.entries()) {
      if (token.type !== "tr_open" || state.tokens[index + 1]?.type !== "td_open") continue;
      const cell = state.tokens[index + 2]?.children ?? [];
      const name = cell[0]?.content ?? "";
      if (cell.length !== 1 || cell[0]?.type !== "code_inline" || !/^\w+$/.test(name) || seen.has(name)) continue;
      seen.add(name);
      token.attrSet("id", name);
    }
  });
}
