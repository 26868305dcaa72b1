/** What matters about the code's shape is checked here, not remembered. */
import assert from "node:assert/strict";
import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ERROR_CATALOGUE } from "../src/domain/errors.ts";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";
import { runProcess } from "../src/lib/run-process.ts";
import { CONFIG_KEYS } from "../src/server/config.ts";
import { circlesOf } from "./harness/circles.ts";

const root = path.resolve(import.meta.dirname, "..");
const read = (file: string) => readFileSync(path.join(root, file), "utf8");
const sources = globSync(["src/**/*.ts", "bin/*.ts"], { cwd: root }).sort();
const LINES_MAX = 400;

/** Who may import whom: the folder on the left, those on the right. Drawn in ARCHITECTURE.md. */
const SEAMS = ["store", "queue", "artifacts", "logs", "drivers", "volumes", "history"];
const SERVICES = [
  "control-plane",
  "console",
  "gateway",
  "worker-link",
  "autoscaler",
  "workers",
  "webhooks",
  "upkeep",
  "telemetry",
  "kubernetes",
];
const DIRECTIONS: Record<string, readonly string[]> = {
  lib: [],
  domain: [],
  python: ["domain", "lib"],
  s3: ["domain", "lib"],
  postgres: ["domain", "lib"],
  ...Object.fromEntries(SEAMS.map((folder) => [folder, ["domain", "lib"]])),
  store: ["domain", "lib", "postgres"],
  // A driver fetches layers from wherever they are kept.
  drivers: ["domain", "lib", "python", "artifacts"],
  artifacts: ["domain", "lib", "s3"],
  queue: ["domain", "lib", "postgres", "s3"],
  // What is masked in logs are values of stored secrets.
  logs: ["domain", "lib", "store", "postgres", "s3"],
  ...Object.fromEntries(SERVICES.map((folder) => [folder, ["domain", "lib", ...SEAMS]])),
  // Between a gateway and who has the jobs.
  "gateway-link": ["domain", "lib", "gateway", "worker-link", "queue", "store", "logs", "history"],
  build: ["domain", "lib", "python"],
  client: ["domain", "lib"],
  dev: ["domain", "lib", "build", "client"],
  cli: ["domain", "lib", "build", "client", "dev", "server", "host"],
  // The wiring of another machine: a driver without a platform.
  host: ["domain", "lib", "drivers", "artifacts", "worker-link", "telemetry", "server"],
  server: ["domain", "lib", "postgres", "s3", ...SEAMS, ...SERVICES, "gateway-link"],
};
/** All that the services see of the seams. */
const INTERFACES = [
  "src/store/store.ts",
  "src/store/records.ts",
  "src/store/alerts.ts",
  "src/store/hosts.ts",
  "src/store/logins.ts",
  "src/queue/queue.ts",
  "src/artifacts/artifact-store.ts",
  "src/logs/log-store.ts",
  "src/drivers/worker-driver.ts",
  "src/volumes/volume-store.ts",
  "src/history/series-store.ts",
  "src/history/record-store.ts",
];
const SERVER_IMPORTERS = /^src\/cli\/(platform|host|commands\/platform)/;
const HOST_IMPORTERS = /^src\/cli\/host\//;
/** Where implementations are chosen. */
const WIRING = ["server", "host"];

function importsOf(file: string): string[] {
  const specifiers = [...read(file).matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map((match) => match[1]!);
  return specifiers.map((specifier) => path.posix.join(path.posix.dirname(file), specifier));
}

test("Every folder of src/ imports only what stands below it", () => {
  const broken: string[] = [];
  for (const file of sources.filter((name) => name.startsWith("src/"))) {
    const folder = file.split("/")[1]!;
    const allowed = DIRECTIONS[folder];
    assert.ok(allowed, `${folder} has no line in the direction table`);
    for (const target of importsOf(file)) {
      const other = target.split("/")[1]!;
      if (other === folder) continue;
      if (!allowed.includes(other)) broken.push(`${file} imports ${target}`);
      else if (!WIRING.includes(folder) && SEAMS.includes(other) && !INTERFACES.includes(target)) {
        broken.push(`${file} imports ${target}, which is an implementation`);
      } else if (folder === "cli" && other === "server" && !SERVER_IMPORTERS.test(file)) {
        broken.push(`${file} imports ${target}; only the platform command may`);
      } else if (folder === "cli" && other === "host" && !HOST_IMPORTERS.test(file)) {
        broken.push(`${file} imports ${target}; only the worker command may`);
      }
    }
  }
  assert.deepEqual(broken, []);
});

test("No files of src/ import each other in a circle", () => {
  // Imports of types count: they are read together too.
  const imports = new Map(
    sources.map((file) => [file, importsOf(file).filter((target) => sources.includes(target))] as const),
  );
  assert.deepEqual(circlesOf(imports), []);
});

test("Every file of src/ is imported by another, except where a program or a package begins", () => {
  const imported = new Set(sources.flatMap(importsOf));
  const begins = ["src/client/endpoint.ts"];
  const unused = sources.filter((file) => file.startsWith("src/") && !imported.has(file) && !begins.includes(file));
  assert.deepEqual(unused, []);
});

test("No source file is longer than 400 lines", () => {
  const files = [...sources, ...globSync(["python/src/**/*.py", "python/scan/*.py"], { cwd: root })];
  const long = files
    .map((file) => [file, read(file).split("\n").length] as const)
    .filter(([, lines]) => lines > LINES_MAX);
  assert.deepEqual(long, []);
});

/** Calls that have a better replacement, and where they are allowed. */
const BANNED: readonly { pattern: RegExp; instead: string; except: RegExp }[] = [
  { pattern: /\bconsole\.(log|error|warn)\(/, instead: "src/cli/terminal.ts or src/lib/log.ts", except: /^$/ },
  { pattern: /\bMath\.random\(/, instead: "node:crypto, passed in", except: /^$/ },
  {
    pattern: /\bprocess\.exit\(/,
    instead: "process.exitCode, so that output is flushed",
    except: /^src\/cli\/main\.ts$/,
  },
  {
    pattern: /\bprocess\.env\b/,
    instead: "an argument, read once at the edge",
    except: /^src\/cli\/(main|context)\.ts$/,
  },
  { pattern: /\bexecSync\(|\bspawnSync\(/, instead: "runProcess of src/lib/run-process.ts", except: /^$/ },
  {
    // A promise that the platform starts and leaves: its rejection would have no owner.
    pattern: /\bvoid [\w#.!]+\((?<!\.(?:push|emit|destroy)\()/,
    instead: "Own of src/lib/own.ts, or .catch()",
    except: /^src\/(cli|dev)\//,
  },
  { pattern: /:\s*any\b|\bas any\b/, instead: "unknown and a check", except: /^$/ },
  {
    pattern: /\benum\s+\w+\s*\{|\bnamespace\s+\w+\s*\{/,
    instead: "a const object: types are only stripped",
    except: /^$/,
  },
];

test("Banned calls stay out; each has a replacement", () => {
  const found: string[] = [];
  for (const file of sources) {
    const code = read(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    for (const { pattern, instead, except } of BANNED) {
      if (pattern.test(code) && !except.test(file)) found.push(`${file}: ${pattern} (use ${instead})`);
    }
  }
  assert.deepEqual(found, []);
});

test("No test file waits between its tests: those that it knows by then are taken for all, and it has to end", () => {
  const late = globSync("test/**/*.test.ts", { cwd: root }).filter((file) => {
    // Programs of other processes stand in texts.
    const text = read(file).replace(/`[^`]*`/g, "");
    const first = /^(test|describe)\(/m.exec(text)?.index ?? text.length;
    return /^(const [^=\n]+ = [^\n]*)?await /m.test(text.slice(first));
  });
  assert.deepEqual(late, []);
});

test("Folders and files have names that say what they hold", () => {
  const vague = sources.filter((file) => /(^|\/)(utils?|helpers?|manager|common|misc|index)(\.ts|\/)/.test(file));
  assert.deepEqual(vague, []);
});

test("ARCHITECTURE.md names every folder", () => {
  const text = read("ARCHITECTURE.md");
  const folders = [
    ...readdirSync(path.join(root, "src"), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `src/${entry.name}/`),
    ...["bin/", "python/", "templates/", "examples/", "docs/", "bench/", "test/"].filter((folder) =>
      existsSync(path.join(root, folder)),
    ),
  ];
  assert.deepEqual(
    folders.filter((folder) => !text.includes(`\`${folder}`)),
    [],
  );
});

test("No link of a page leads nowhere", () => {
  const files = globSync(["*.md", "docs/**/*.md", "examples/**/*.md"], { cwd: root });
  const pages = files.filter((page) => !page.includes("node_modules/"));
  const prose = (page: string) => read(page).replace(/^ *```[\s\S]*?^ *```/gm, "");
  const headings = (page: string) =>
    Array.from(prose(page).matchAll(/^#+ (.*)$/gm), ([, title]) =>
      title!
        .toLowerCase()
        .replace(/[^\w -]/g, "")
        .replaceAll(" ", "-"),
    );
  const dead: string[] = [];
  for (const page of pages) {
    for (const [, link] of prose(page).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [file, anchor] = link!.split("#");
      const target = file ? path.join(path.dirname(page), file) : page;
      const leads = existsSync(path.join(root, target)) && (!anchor || headings(target).includes(anchor));
      if (!leads) dead.push(`${page}: ${link}`);
    }
  }
  assert.deepEqual(dead, []);
});

test("Every error code is documented, and no other", () => {
  const documented = [...read("docs/reference/errors.md").matchAll(/^\| `([A-Z_]+)`/gm)].map((match) => match[1]!);
  assert.deepEqual(documented.sort(), Object.keys(ERROR_CATALOGUE).sort());
});

test("Every configuration key is documented, and no other", () => {
  const documented = [...read("docs/reference/config.md").matchAll(/^\| `(SVC_[A-Z0-9_]+)`/gm)].map(
    (match) => match[1]!,
  );
  assert.deepEqual(documented.sort(), [...CONFIG_KEYS].sort());
});

test("One version everywhere", () => {
  assert.equal(JSON.parse(read("package.json")).version, VERSION);
  assert.match(read("python/pyproject.toml"), new RegExp(`^version = "${VERSION}"$`, "m"));
  assert.match(read("CHANGELOG.md"), new RegExp(`^## ${VERSION}`, "m"));
});

test("One published name everywhere", () => {
  assert.match(read("python/pyproject.toml"), new RegExp(`^name = "${PUBLISHED_NAME}"$`, "m"));
  assert.equal(JSON.parse(read("package.json")).private, true, "the clone's own package is not what is published");
});

test("The lock file holds no download addresses", () => {
  assert.doesNotMatch(read("package-lock.json"), /"resolved"/);
});

test("Types are right", { timeout: 300_000 }, async () => {
  // What no change has reached since it was looked at last is not looked at again.
  const known = ["--incremental", "--tsBuildInfoFile", "node_modules/.cache/types.tsbuildinfo"];
  const result = await runProcess(path.join(root, "node_modules/.bin/tsc"), ["--noEmit", ...known], { cwd: root });
  assert.equal(result.code, 0, result.stdout);
});

test("The linter and the formatter have nothing to say", { timeout: 300_000 }, async () => {
  const result = await runProcess(path.join(root, "node_modules/.bin/biome"), ["ci", "--colors=off", "."], {
    cwd: root,
  });
  assert.equal(result.code, 0, result.stdout + result.stderr);
});
