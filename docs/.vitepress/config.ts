import path from "node:path";
import { defineConfig } from "vitepress";
import { diagrams } from "./diagrams.ts";
import { fileNames } from "./file-names.ts";
import { linksOutside } from "./links-outside.ts";
import { blocksOnce } from "./once.ts";
import { rowAnchors } from "./row-anchors.ts";
import { SIDEBAR } from "./sidebar.ts";

export default defineConfig({
  title: "svc",
  description: "A Python function becomes an autoscaled HTTP endpoint in seconds, on your own machines.",
  lang: "en",
  srcExclude: ["package.json", "node_modules/**"],
  cacheDir: path.resolve(import.meta.dirname, "../node_modules/.cache"),
  rewrites: { "clients/README.md": "clients/index.md" },
  head: [["link", { rel: "icon", href: "data:," }]],
  markdown: {
    config(md) {
      diagrams(md);
      fileNames(md);
      blocksOnce(md);
      rowAnchors(md);
      linksOutside(md, path.resolve(import.meta.dirname, ".."));
    },
  },
  themeConfig: {
    search: { provider: "local", options: { detailedView: true } },
    outline: { level: [2, 3] },
    nav: [
      { text: "Start", link: "/start/five-minutes" },
      { text: "Operate", link: "/guide/production" },
      { text: "Reference", link: "/reference/cli" },
    ],
    sidebar: SIDEBAR.map(({ items, ...section }) => ({
      ...section,
      items: items.map(({ text, link }) => ({ text, link: link.replace("/README", "/") })),
    })),
    docFooter: { prev: "Before", next: "Next" },
  },
});
