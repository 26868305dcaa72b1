import type { MarkdownRenderer } from "vitepress";

const blocks = new Map<string, string>();

/** A page is rendered twice, for readers and for the search: its blocks of code, most of the work, once. It comes after all that changes fences. */
export function blocksOnce(md: MarkdownRenderer): void {
  const fence = md.renderer.rules.fence!;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]!;
    const key = `${info}\n${content}`;
    const known = blocks.get(key) ?? fence(tokens, index, ...rest);
    blocks.set(key, known);
    return known;
  };
}
