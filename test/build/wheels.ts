/** A local package index for tests: tiny wheels in a folder that the installer is pointed at instead of a network. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";

export interface WheelSpec {
  readonly name: string;
  readonly version: string;
  readonly requires?: readonly string[];
  /** Path in the wheel → text. */
  readonly files: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

const MAKE = `
import hashlib, json, sys, zipfile
folder, wheels = sys.argv[1], json.load(sys.stdin)
for w in wheels:
    name, version = w["name"].replace("-", "_"), w["version"]
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {w['name']}", f"Version: {version}"]
    lines += [f"Requires-Dist: {r}" for r in w.get("requires", [])]
    files = dict(w["files"])
    files[f"{info}/METADATA"] = "\\n".join(lines) + "\\n\\nAbout.\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    if w.get("scripts"):
        files[f"{info}/entry_points.txt"] = "[console_scripts]\\n" + "".join(f"{k} = {v}\\n" for k, v in w["scripts"].items())
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as z:
        for path, text in files.items():
            z.writestr(path, text)
        z.writestr(f"{info}/RECORD", "".join(f"{p},,\\n" for p in [*files, f"{info}/RECORD"]))
`;

export function makeWheels(folder: string, wheels: readonly WheelSpec[]): void {
  mkdirSync(folder, { recursive: true });
  execFileSync("python3", ["-c", MAKE, folder], { input: JSON.stringify(wheels) });
}

/** Environment in which pip and uv see the folder's wheels and no index. */
export function offlineEnv(folder: string): Record<string, string | undefined> {
  return {
    ...process.env,
    PIP_NO_INDEX: "1",
    PIP_FIND_LINKS: folder,
    PIP_CONFIG_FILE: "/dev/null",
    PIP_NO_CACHE_DIR: "1",
    UV_OFFLINE: "1",
    UV_NO_INDEX: "1",
    UV_FIND_LINKS: folder,
  };
}
