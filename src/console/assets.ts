/**
 * The files of the console's page: our own modules as they are, and three libraries from the installed packages. All lie
 * below one address that has their digest in it, so a browser keeps them for ever and never mixes two versions.
 */
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

export interface Asset {
  readonly type: string;
  readonly body: Buffer;
  readonly zipped: Buffer;
}

const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Modules name each other by package; browsers want an address. */
const LIBRARIES: Readonly<Record<string, string>> = {
  "vendor/preact.js": "preact",
  "vendor/preact-hooks.js": "preact/hooks",
  "vendor/htm.js": "htm",
  "vendor/uplot.js": "uplot/dist/uPlot.iife.min.js",
  "vendor/uplot.css": "uplot/dist/uPlot.min.css",
};

const STYLES = [
  "vendor/uplot.css",
  ...["base", "parts", "forms", "tables", "times", "texts", "narrow"].map((name) => `styles/${name}.css`),
];

/** Scripts that are no modules. */
const CLASSIC = new Set(["start.js", "vendor/uplot.js"]);

export class Assets {
  readonly #files: ReadonlyMap<string, Asset>;
  readonly #base: string;

  /** Reads all of them. */
  constructor() {
    const files = new Map<string, Asset>();
    const hash = createHash("sha256");
    const own = ownFiles();
    // A package of ours has the libraries among its own files (packaging/package.ts).
    const carried = own.some(([name]) => name in LIBRARIES);
    for (const [name, text] of [...own, ...(carried ? [] : Assets.libraries())].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const body = Buffer.from(text);
      hash.update(name).update(body);
      files.set(name, { type: TYPES[path.extname(name)]!, body, zipped: gzipSync(body) });
    }
    this.#files = files;
    this.#base = `/console/${hash.digest("hex").slice(0, 16)}/`;
  }

  /** Name, text and file of each library. */
  static libraries(): [name: string, text: string, file: string][] {
    return Object.entries(LIBRARIES).map(([name, specifier]) => {
      const file = fileURLToPath(import.meta.resolve(specifier));
      const text = readFileSync(file, "utf8").replaceAll('from"preact"', 'from"./preact.js"');
      return [name, text.replace(/^\/\/# sourceMappingURL=.*$/m, ""), file];
    });
  }

  /** By the path it is asked for. No other path reaches the disk, or this one: names are looked up. */
  find(pathname: string): Asset | undefined {
    return pathname.startsWith(this.#base) ? this.#files.get(pathname.slice(this.#base.length)) : undefined;
  }

  address(name: string): string {
    return this.#base + name;
  }

  /** In the order in which they count: a later one has the last word. */
  styles(): string[] {
    return STYLES.map((name) => this.address(name));
  }

  /** All modules: a page asks for them at once. */
  modules(): string[] {
    return [...this.#files.keys()].filter((name) => name.endsWith(".js") && !CLASSIC.has(name));
  }
}

/** Browser code, which stays in src/ when the rest runs from dist/. */
function ownFiles(): [string, string][] {
  const beside = fileURLToPath(new URL("./web", import.meta.url));
  const folder = existsSync(beside) ? beside : fileURLToPath(new URL("../../../src/console/web", import.meta.url));
  return globSync("**/*.{js,css,svg}", { cwd: folder }).map((name) => [
    name.split(path.sep).join("/"),
    readFileSync(path.join(folder, name), "utf8"),
  ]);
}
