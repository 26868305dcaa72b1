/**
 * The platform's code as an installed svc runs it: each file of src/ and bin/ keeps its place below dist/, and the packages
 * they import are bundled into dist/vendor/, one file for each name that is imported. What is installed needs no other package.
 */
import { globSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { build, type Metafile, type Plugin } from "esbuild";

/** Parts in machine code, which make a package faster where they are there. */
export const NATIVE = ["cpu-features", "*.node"];

/**
 * Parts of packages that no part of svc uses, and what stands in their place: gRPC and BuildKit's protocol (images are built without), engines
 * that are reached by ssh, texts in other languages.
 */
const LEFT_OUT: readonly (readonly [file: RegExp, text: string])[] = [
  [/dockerode\/lib\/session\.js$/, 'module.exports = () => { throw new Error("svc has no sessions of BuildKit"); };'],
  [/dockerode\/lib\/buildkit\.js$/, 'throw new Error("svc does not read BuildKit\'s progress");'],
  [
    /docker-modem\/lib\/ssh\.js$/,
    'module.exports = () => { throw new Error("svc reaches the engine of its machine only"); };',
  ],
  // A platform is no person who signs in with a browser.
  [
    /@aws-sdk\/credential-provider-sso\/dist-cjs\/index\.js$/,
    'exports.fromSSO = () => async () => { throw new Error("svc takes no keys of a person who signed in by SSO"); };',
  ],
  [
    /@aws-sdk\/credential-provider-login\/dist-cjs\/index\.js$/,
    'exports.fromLoginCredentials = () => async () => { throw new Error("svc takes no keys of a person who signed in"); };',
  ],
  [/zod\/v4\/locales\/index\.js$/, 'export { default as en } from "./en.js";'],
];

export const leftOut: Plugin = {
  name: "left out",
  setup({ onLoad }) {
    for (const [filter, contents] of LEFT_OUT) {
      onLoad({ filter }, ({ path: file }) => ({ contents, resolveDir: path.dirname(file) }));
    }
  },
};

/** What bundled CommonJS expects around it. */
export const COMMONJS =
  'import { createRequire as svcRequire } from "node:module";' +
  "const require = svcRequire(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;";

/** Whoever imports node:process has Node read all that it has, and so open the standard streams: packages get it without. */
export const sameProcess: Plugin = {
  name: "same process",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:)?process$/ }, () => ({ path: "process", namespace: "process" }));
    onLoad({ filter: /^/, namespace: "process" }, () => ({ contents: "module.exports = process;" }));
  },
};

/** A package that is taken in the middle of a function: no import, so esbuild leaves it. */
const REQUIRED = /(createRequire\(import\.meta\.url\)\()"([^"]+)"/g;

/** What Node adds to the names of a CommonJS module. */
const NODES_OWN = new Set(["module.exports", "__esModule"]);

/** Writes `out`/dist of the clone `root`. Resolves what stands in dist/vendor/ and of which files it was made. */
export async function bundle(root: string, out: string): Promise<Metafile> {
  const dist = path.join(out, "dist");
  const packages = new Set<string>();
  const place = (file: string, name: string) => {
    packages.add(name);
    const to = path.relative(path.dirname(file), `vendor/${fileName(name)}`);
    return to.startsWith(".") ? to : `./${to}`;
  };
  await build({
    absWorkingDir: root,
    entryPoints: globSync(["bin/*.ts", "src/**/*.ts"], { cwd: root }),
    outbase: root,
    outdir: dist,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node24",
    // Names stay, for stacks; a line stays short enough to be shown.
    minifyWhitespace: true,
    lineLimit: 160,
    plugins: [beside((file, name) => place(path.relative(root, file), name))],
  });
  for (const file of globSync("{bin,src}/**/*.js", { cwd: dist })) {
    const text = readFileSync(path.join(dist, file), "utf8");
    const placed = text.replace(REQUIRED, (_, call: string, name: string) => `${call}"${place(file, name)}"`);
    if (placed !== text) writeFileSync(path.join(dist, file), placed);
  }
  return bundlePackages(root, path.join(dist, "vendor"), [...packages].sort());
}

/** Files stay apart as they are in src/; a package is the file that `place` names. */
function beside(place: (importer: string, name: string) => string): Plugin {
  return {
    name: "beside",
    setup({ onResolve }) {
      onResolve({ filter: /^/ }, ({ path: name, kind, importer }) => {
        if (kind === "entry-point" || name.startsWith("node:")) return undefined;
        const to = /^\.\.?\//.test(name) ? name.replace(/\.ts$/, ".js") : place(importer, name);
        return { path: to, external: true };
      });
    },
  };
}

async function bundlePackages(root: string, outdir: string, packages: readonly string[]): Promise<Metafile> {
  const entries = new Map(packages.map((name) => [fileName(name), name]));
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: [...entries.keys()].map((file) => ({ in: `entry:${file}`, out: file.replace(/\.js$/, "") })),
    outdir,
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    platform: "node",
    target: "node24",
    external: NATIVE,
    banner: { js: COMMONJS },
    legalComments: "none", // packaging/third-party.ts gives the licences whole.
    metafile: true,
    plugins: [
      sameProcess,
      leftOut,
      {
        name: "entries",
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^entry:/ }, ({ path: to }) => ({ path: to.slice("entry:".length), namespace: "entry" }));
          onLoad({ filter: /^/, namespace: "entry" }, async ({ path: file }) => {
            return { contents: await asNodeSees(entries.get(file)!), resolveDir: root };
          });
        },
      },
    ],
  });
  return metafile;
}

/** A module with all names of a package: of CommonJS, esbuild alone would not know them. */
export async function asNodeSees(packageName: string): Promise<string> {
  const names = Object.keys(await import(packageName)).filter((each) => !NODES_OWN.has(each));
  return `export { ${names.join(", ")} } from ${JSON.stringify(packageName)};`;
}

/** "@stricli/core" → "stricli-core.js" */
function fileName(packageName: string): string {
  return `${packageName.replace(/^@/, "").replaceAll("/", "-")}.js`;
}
