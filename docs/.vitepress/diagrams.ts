import { renderMermaidSVG } from "beautiful-mermaid";
import type { MarkdownRenderer } from "vitepress";

/** Blocks of Mermaid become pictures while the site is built: a reader's browser loads no renderer. Their colours stand in theme/style.css. */
export function diagrams(md: MarkdownRenderer): void {
  const fence = md.renderer.rules.fence!;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]!;
    if (info.trim() !== "mermaid") return fence(tokens, index, ...rest);
    // Its own style sheet names a font of the network, and would hold for every picture of the page.
    const svg = renderMermaidSVG(content).replace(/<style>[\s\S]*?<\/style>/, "");
    return `<div class="diagram" v-pre>${svg.replace(/ style="[^"]*"/, "")}</div>`;
  };
}
