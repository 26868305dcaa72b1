/** Which modules of the tests a test file imports, also by way of others. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const IMPORT = /^(?:import|export)\s(?!type\s)[^;]*?from "(\.[^"]+\.ts)"/gm;
const known = new Map<string, readonly string[]>();

/** Their names, without folders. What modules that match `end` import in turn is not looked at. */
export function modulesOf(file: string, end: RegExp): ReadonlySet<string> {
  const found = new Set([file]);
  for (const each of found) if (!end.test(each)) for (const next of importedBy(each)) found.add(next);
  found.delete(file);
  return new Set([...found].map((each) => path.basename(each)));
}

function importedBy(file: string): readonly string[] {
  let imports = known.get(file);
  if (imports === undefined) {
    const from = [...readFileSync(file, "utf8").matchAll(IMPORT)].map(([, name]) =>
      path.join(path.dirname(file), name!),
    );
    imports = from.filter((each) => !each.includes("/src/") && existsSync(each));
    known.set(file, imports);
  }
  return imports;
}
