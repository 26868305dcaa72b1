import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const ROOT = path.resolve(import.meta.dirname, "../..");

/** Packages that a file loads, with all that it imports statically; types are not loaded. */
function loadedPackages(entry: string, seen = new Set<string>()): Set<string> {
  const packages = new Set<string>();
  if (seen.has(entry)) return packages;
  seen.add(entry);
  const code = readFileSync(entry, "utf8");
  for (const [, names, from] of code.matchAll(/^(?:import|export) (?!type )([^;]*?)from "([^"]+)";/gms)) {
    const onlyTypes = /^\{\s*(type [^,]+,?\s*)+\}\s*$/.test(names!);
    if (onlyTypes || from!.startsWith("node:")) continue;
    if (from!.startsWith(".")) {
      for (const each of loadedPackages(path.resolve(path.dirname(entry), from!), seen)) packages.add(each);
    } else packages.add(from!);
  }
  return packages;
}

test("a command loads only what it needs: no validation, SQL or GraphQL library for a build or a deploy", () => {
  const allowed: Record<string, readonly string[]> = {
    "bin/svc.ts": [],
    "src/cli/app.ts": ["@stricli/core", "picocolors"],
    "src/cli/commands/build.ts": ["@stricli/core", "env-paths"],
    "src/build/build.ts": ["ignore", "picocolors", "tar-stream"],
    "src/cli/commands/deploy.ts": ["@stricli/core", "dotenv", "env-paths"],
  };
  for (const [file, packages] of Object.entries(allowed)) {
    const loaded = [...loadedPackages(path.join(ROOT, file))].sort();
    assert.deepEqual(
      loaded.filter((name) => !packages.includes(name)),
      [],
      file,
    );
  }
  assert.ok(loadedPackages(path.join(ROOT, "src/server/config.ts")).has("zod"), "the check sees what is loaded");
});
