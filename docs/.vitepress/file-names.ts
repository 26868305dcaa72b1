import type { MarkdownRenderer } from "vitepress";

/** A block that is a file, "```python [worker.py]", shows its name. */
export function fileNames(md: MarkdownRenderer): void {
  const fence = md.renderer.rules.fence!;
  md.renderer.rules.fence = (tokens, index, ...rest) => {
    const name = /\[([^\]]+)\]/.exec(tokens[index]!.info)?.[1];
    const block = fence(tokens, index, ...rest);
    return name === undefined ? block : `<div class="file-name">${md.utils.escapeHtml(name)}</div>${block}`;
  };
}
