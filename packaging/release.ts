/** What of the list for a release in CONTRIBUTING.md can be seen in the clone. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";
import { run } from "./run.ts";

/** Sentences about the clone in `root` that stand against handing out what was made of it; none when nothing does. */
export async function notYet(root: string): Promise<string[]> {
  const git = (...args: string[]) =>
    run("git", args, root).then(
      (text) => text.trim(),
      () => undefined,
    );
  const missing: string[] = [];
  const read = (file: string) => readFileSync(path.join(root, file), "utf8");
  const heading = new RegExp(`^## \\[?${VERSION.replaceAll(".", "\\.")}\\b`, "m");
  if (!heading.test(read("CHANGELOG.md"))) missing.push(`CHANGELOG.md has no heading for ${VERSION}.`);
  if (/^## Unreleased\n+(?!## )\S/m.test(read("CHANGELOG.md")))
    missing.push("CHANGELOG.md has lines under Unreleased.");
  if (!read("README.md").includes(`${PUBLISHED_NAME}-${VERSION}.tgz`))
    missing.push(`README.md names another version than ${VERSION}.`);
  const changes = await git("status", "--porcelain");
  if (changes === undefined) missing.push("This is no clone: nobody can tell what was packed.");
  else if (changes !== "") missing.push("There are changes that are not committed.");
  else if ((await git("tag", "--points-at", "HEAD")) !== `v${VERSION}`)
    missing.push(`The commit has no tag v${VERSION}.`);
  return missing;
}
