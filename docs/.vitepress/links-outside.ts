import path from "node:path";
import type { MarkdownRenderer } from "vitepress";

/** Links to files beside docs/ lead somewhere in a clone; the site has no such page and shows their text alone. */
export function linksOutside(md: MarkdownRenderer, root: string): void {
  md.core.ruler.push("links-outside", (state) => {
    const page = path.join(root, (state.env as { relativePath?: string }).relativePath ?? "");
    for (const { children } of state.tokens) {
      let dropped = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") {
          const target = token.attrGet("href") ?? "";
          const leads = path.join(path.dirname(page), target.split("#")[0]!);
          dropped = /^\.\.?\//.test(target) && path.relative(root, leads).startsWith("..");
        }
        if (dropped && token.type.startsWith("link_")) Object.assign(token, { tag: "span", type: "text", content: "" });
        if (token.type === "link_close") dropped = false;
      }
    }
  });
}
