import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { timed } from "./cli.ts";
import { CACHE } from "./processes.ts";

export const LARGE_WHEELS = ["bulk-a", "bulk-b", "bulk-c", "bulk-d", "bulk-e"];
const MB_EACH = 100;

/** Half random, half repeating, as compiled libraries are: what gzip leaves is near 60 %. */
const MAKE = `
import os, sys, zipfile
folder, mb = sys.argv[1], int(sys.argv[2])
for name in sys.argv[3:]:
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-1.0.dist-info"
    with zipfile.ZipFile(f"{folder}/{module}-1.0-py3-none-any.whl", "w", zipfile.ZIP_STORED) as wheel:
        paths = [f"{module}/__init__.py"] + [f"{module}/part{i}.bin" for i in range(mb)]
        wheel.writestr(paths[0], "")
        for path in paths[1:]:
            wheel.writestr(path, b"".join(os.urandom(512) + bytes(512) for _ in range(1024)))
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: bench\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{p},,\\n" for p in [*paths, f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]))
`;

/** A folder with wheels of 500 MB in all, made once and kept between runs. */
export async function largeWheels(): Promise<string> {
  const folder = path.join(CACHE, "large-wheels");
  if (existsSync(path.join(folder, "ready"))) return folder;
  mkdirSync(folder, { recursive: true });
  await timed("python3", ["-c", MAKE, folder, `${MB_EACH}`, ...LARGE_WHEELS], folder, process.env);
  writeFileSync(path.join(folder, "ready"), "");
  return folder;
}
