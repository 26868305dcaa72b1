/**
 * The npm package: all that is installed, and the archive of it. Nothing is fetched, and it needs no other package. The
 * root's package.json is that of the clone, which is published nowhere.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { Assets } from "../src/console/assets.ts";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";
import { bundle } from "./bundle.ts";
import { ROOT, run } from "./run.ts";
import { billOfMaterials, licenceTexts, type ThirdParty, thirdParties } from "./third-party.ts";

/** What the code reads beside itself. */
const CARRIED = [
  "LICENSE",
  "README.md",
  "CHANGELOG.md",
  "deploy",
  "python/build_backend.py",
  "python/pyproject.toml",
  "python/scan",
  "python/src",
  "src/console/web",
  "src/control-plane/schema.graphql",
  "src/control-plane/compatible.graphql",
  "src/dev/explorer",
  "templates",
];

/** What the explorer shows of Swagger UI: its package also brings 7 MB of source maps. The large ones are packed: gzip leaves a quarter more. */
const SWAGGER_UI = ["swagger-ui.css", "swagger-ui-bundle.js", "LICENSE", "NOTICE"].map(
  (name) => `node_modules/swagger-ui-dist/${name}`,
);

export interface Package {
  /** All that is installed. */
  readonly folder: string;
  /** What npm installs. */
  readonly file: string;
  readonly parties: readonly ThirdParty[];
}

/** Makes `folder`/package, and beside it what npm packs of it and the wheel; `quality` is that of Brotli, whose last two steps cost most. */
export async function makePackage(folder: string, quality = constants.BROTLI_MAX_QUALITY): Promise<Package> {
  const out = path.join(folder, "package");
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const name of CARRIED)
    cpSync(path.join(ROOT, name), path.join(out, name), { recursive: true, filter: isSource });
  for (const file of SWAGGER_UI)
    carry(path.join(ROOT, file), path.join(out, "dist/swagger-ui", path.basename(file)), quality);
  const { inputs } = await bundle(ROOT, out);
  const browser = placeLibraries(path.join(out, "src/console/web"));
  const parties = thirdParties(ROOT, [...Object.keys(inputs), ...browser, ...SWAGGER_UI]);
  writeFileSync(path.join(out, "THIRD-PARTY-LICENSES"), licenceTexts(parties));
  writeFileSync(path.join(out, "bom.cdx.json"), billOfMaterials(parties));
  await run("python3", ["-I", "python/build_backend.py", folder]);
  await declareClient(path.join(out, "dist"));
  writeFileSync(path.join(out, "package.json"), `${JSON.stringify(manifest(), undefined, 2)}\n`);
  const packed = await run("npm", ["pack", "--json", "--pack-destination", folder, out]);
  const [{ filename }] = JSON.parse(packed) as [{ filename: string }];
  return { folder: out, file: path.join(folder, filename), parties };
}

function carry(file: string, to: string, quality: number): void {
  mkdirSync(path.dirname(to), { recursive: true });
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality };
  if (/\.(js|css)$/.test(file)) writeFileSync(`${to}.br`, brotliCompressSync(readFileSync(file), { params }));
  else cpSync(file, to);
}

function isSource(file: string): boolean {
  return !file.includes("__pycache__");
}

/** The libraries of the console's page, where an installed console finds them. Returns the files they are. */
function placeLibraries(web: string): string[] {
  return Assets.libraries().map(([name, text, file]) => {
    mkdirSync(path.dirname(path.join(web, name)), { recursive: true });
    writeFileSync(path.join(web, name), text);
    return path.relative(ROOT, file);
  });
}

/** Types of svc/client alone, which is all that can be imported; it needs those of browsers only. */
export async function declareClient(dist: string): Promise<void> {
  const output = ["--declaration", "--emitDeclarationOnly", "--rootDir", ".", "--outDir", dist];
  const language = ["--ignoreConfig", "--strict", "--module", "nodenext", "--target", "es2024", "--lib", "es2024,dom"];
  const flags = [...output, ...language, "--types", "", "--rewriteRelativeImportExtensions"];
  await run("node_modules/.bin/tsc", [...flags, "src/client/endpoint.ts"]);
}

function manifest(): object {
  const { description, license, type, bin, exports, engines } = JSON.parse(
    readFileSync(path.join(ROOT, "package.json"), "utf8"),
  );
  return { name: PUBLISHED_NAME, version: VERSION, description, license, type, bin, exports, engines };
}
