/**
 * The program that tests of the whole start, made of the sources here once for all test files: of the sources themselves a
 * platform reads 1300 modules, which takes longer than what most tests do with it. In the program each file keeps its place in
 * the sources: what it looks for beside itself is there.
 */
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import { asNodeSees, COMMONJS, leftOut, NATIVE, sameProcess } from "../packaging/bundle.ts";

const ROOT = path.resolve(import.meta.dirname, "..");
const SOURCE = path.join(ROOT, "bin/svc.ts");
const SOURCES = ["bin/*.ts", "src/**/*.ts", "test/make-program.ts", "packaging/bundle.ts"];
const STARTER = path.join(ROOT, "src/cli/platform/start.ts");
const KEPT_MS = 3_600_000;

/** Resolves the file of the program, which stays until the sources change. Its folder is one for a search path: `svc` is there. */
export async function makeProgram(): Promise<string> {
  const kept = path.join(ROOT, "node_modules/.cache/program");
  const folder = path.join(kept, digestOfSources());
  const program = path.join(folder, "bin/svc.mjs");
  if (existsSync(program)) return program;
  mkdirSync(kept, { recursive: true });
  for (const name of readdirSync(kept)) {
    const earlier = path.join(kept, name);
    // Another run may still use its own.
    if (Date.now() - statSync(earlier).mtimeMs > KEPT_MS) rmSync(earlier, { recursive: true, force: true });
  }
  const made = mkdtempSync(path.join(kept, "new-"));
  await build({
    absWorkingDir: ROOT,
    entryPoints: { "bin/svc": SOURCE },
    outdir: made,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    keepNames: true,
    format: "esm",
    platform: "node",
    target: "node24",
    external: NATIVE,
    banner: { js: COMMONJS },
    logLevel: "error",
    plugins: [sameProcess, leftOut, placesFor(folder), packages],
  });
  writeFileSync(path.join(made, "bin/svc"), commandOf(program), { mode: 0o755 });
  // Tests run as other users too.
  chmodSync(made, 0o755);
  try {
    renameSync(made, folder);
  } catch (error) {
    if (!existsSync(program)) throw error;
    rmSync(made, { recursive: true }); // Another run has made it meanwhile.
  }
  return program;
}

/** As bin/svc of a clone: code that earlier processes compiled is kept. */
function commandOf(program: string): string {
  const kept = `NODE_COMPILE_CACHE=\${NODE_COMPILE_CACHE:-${path.join(ROOT, "node_modules/.cache/tests")}}`;
  return `#!/bin/sh\nexport ${kept}\nexec "${process.execPath}" "${program}" "$@"\n`;
}

/** Each file of ours takes itself for the source that it is, but for the one that says what a further process is started with. */
function placesFor(folder: string): Plugin {
  return {
    name: "places",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path: file }) => {
        if (file.includes("/node_modules/")) return undefined;
        const text = await readFile(file, "utf8");
        const place = file === STARTER ? path.join(folder, "src/cli/platform/start.mjs") : file;
        return {
          contents: text.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(place).href)),
          loader: "ts",
        };
      });
    },
  };
}

/** A package that is imported when it is needed has all its names. */
const packages: Plugin = {
  name: "packages",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^./]/ }, ({ path: name, kind, importer }) => {
      const isPackage = kind === "dynamic-import" && importer.startsWith(path.join(ROOT, "src/"));
      return isPackage && !name.startsWith("node:") ? { path: name, namespace: "package" } : undefined;
    });
    onLoad({ filter: /^/, namespace: "package" }, async ({ path: name }) => {
      return { contents: await asNodeSees(name), resolveDir: ROOT };
    });
  },
};

function digestOfSources(): string {
  // A program looks for its files where its sources were.
  const hash = createHash("sha256").update(`${ROOT}\0`);
  for (const name of ["package-lock.json", ...globSync(SOURCES, { cwd: ROOT }).sort()]) {
    hash.update(`${name}\0`).update(readFileSync(path.join(ROOT, name)));
  }
  return hash.digest("hex").slice(0, 16);
}
