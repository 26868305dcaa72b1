import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** A folder that goes when the test ends. */
export function temporaryFolder(t: { after(work: () => void): void }): string {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-build-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes the files below `folder`. */
export function writeFiles(folder: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), content);
  }
}

export const HELLO = `from svc import Endpoint


@Endpoint(name="hello")
def hello(name="world"):
    return {"message": name}
`;
