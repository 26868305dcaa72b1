import { renderMermaidSVG } from "beautiful-mermaid";
import type { MarkdownRenderer } from "vitepress";

const LEGIBLE_PX = 600;

/** Blocks of Mermaid become pictures while the site is built: a reader's browser loads no renderer. Their colours stand in theme/style.css. */
export function diagrams(md: MarkdownRenderer): void {
  const fence = md.renderer.rules.fence!;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const { info, content } = tokens[index]!;
    if (info.trim() !== "mermaid") return fence(tokens, index, ...rest);
    // Its own style sheet names a font of the network, and would hold for every picture of the page.
    const svg = renderMermaidSVG(content).replace(/<style>[\s\S]*?<\/style>/, "");
    // On a telephone a wide picture is moved sideways: shrunk to the page nobody could read it.
    const width = Math.min(Number(/ width="([\d.]+)"/.exec(svg)?.[1] ?? 0), LEGIBLE_PX);
    return `<div class="diagram" v-pre>${svg.replace(/ style="[^"]*"/, ` style="min-width:${width}px"`)}</div>`;
  };
}
