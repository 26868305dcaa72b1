/** Inputs that are read in this process: each kind has a way to make one and a way to read it that may only refuse it as an input. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { parse as parseDotenv } from "dotenv";
import ignore from "ignore";
import { droppingRule } from "../../../src/build/ignore-rules.ts";
import { findPython } from "../../../src/build/interpreter.ts";
import { PythonScanner } from "../../../src/build/python-scanner.ts";
import { scanProject } from "../../../src/build/scan.ts";
import { manifestSchema } from "../../../src/domain/manifest-schema.ts";
import { unpackLayer } from "../../../src/drivers/unpack-layer.ts";
import { packTar } from "../../../src/lib/tar-pack.ts";
import type { Mutator } from "./mutate.ts";

/** Reads one made-up input; throws when the product failed, not when it refused. */
export type Kind = (mutator: Mutator) => void | Promise<void>;

const SOURCE = `
import os
from svc import Endpoint, GpuGroup
X = {"a": 1, "b": [1, 2, *range(3)]}
NAME = f"n-{X['a']}"
api = Endpoint(name="api", env={"K": os.environ["HOME"]}, dependencies=["numpy>=1", "torch"], workers=(0, 3))
@api.post("/x/{n}")
async def x(n: int, body: dict = None): return {"n": n}
@Endpoint(name=NAME, gpu=GpuGroup.ANY, idle_timeout=5)
def work(a, *, b=1, **rest):
    yield a
if __name__ == "__main__":
    work(1)
`;
const PYTHON =
  "( ) [ ] { } @ : , = . * ** -> lambda yield await async def class if else for in import from Endpoint( name= \n \t ''' \" \\ f\"{ # 0x 1e9 é \ud83d\ude00 \u0000".split(
    " ",
  );
const MANIFEST = {
  version: 1,
  svcVersion: "0.1.0",
  sourceLayer: "a".repeat(64),
  routes: { api: { "GET /": "x" } },
  resources: {
    api: { name: "api", kind: "queue", pythonVersion: "3.11", handler: "handlers/api.py", dependencies: ["numpy"] },
  },
};
const TOKENS = [
  "null",
  '"',
  "{",
  "}",
  "[",
  ",",
  ":",
  "1e999",
  "\\u0000",
  "__proto__",
  "../",
  "\n",
  "=",
  "#",
  "!",
  "**",
  "\\",
  "$" + "{A}",
  "[a-",
];

export async function textKinds(): Promise<{ kinds: Record<string, Kind>; close(): void }> {
  const python = await findPython({ env: process.env });
  const scanner = new PythonScanner(async () => python);
  const dir = mkdtempSync(path.join(tmpdir(), "svc-fuzz-"));
  const project = mkdtempSync(path.join(tmpdir(), "svc-fuzz-project-"));
  const archive = await packed();
  let unpacked = 0;
  const kinds: Record<string, Kind> = {
    "Python sources": async (mutator) => {
      writeFileSync(path.join(project, "fuzz.py"), mutator.bytes(Buffer.from(SOURCE), PYTHON, 12));
      const { diagnostics } = await scanProject({ projectDir: project, environment: {}, scanner });
      const broken = diagnostics.find(({ rule }) => rule === "unreadable");
      if (broken !== undefined) throw new Error(broken.message);
    },
    manifests: (mutator) => {
      const bytes = mutator.bytes(Buffer.from(JSON.stringify(MANIFEST)), TOKENS);
      manifestSchema.safeParse(
        mutator.random() < 0.5 ? parsed(bytes) : { ...MANIFEST, resources: mutator.json(), routes: mutator.json() },
      );
    },
    ".env files": (mutator) => {
      const read = parseDotenv(mutator.bytes(Buffer.from("A=1\nexport B=\"two # x\"\nC='it's'\n# D=4\n"), TOKENS, 8));
      for (const [name, value] of Object.entries(read))
        if (typeof value !== "string") throw new Error(`${name} is no text`);
    },
    "ignore files": (mutator) => {
      const text = mutator
        .bytes(Buffer.from("*.log\n/build/\n!keep.log\n**/x/**\n[a-z]?.py\n"), TOKENS, 8)
        .toString("utf8");
      const rules = [{ label: ".svcignore", folder: "", prefix: "", rules: ignore().add(text) }];
      for (const file of ["a.py", "build/", "x/y/keep.log"]) droppingRule(file, rules);
    },
    "layer archives": async (mutator) => {
      const tar = mutator.inPlace(archive, ["../", "/etc/passwd", "ustar", "\u0000", "7777777", "2", "1"], 6);
      const zipped = mutator.random() < 0.8 ? gzipSync(checksummed(tar)) : mutator.bytes(gzipSync(archive), TOKENS);
      const into = mkdtempSync(path.join(dir, "layer-"));
      try {
        await unpackLayer(Readable.from([zipped]), into, { bytesMax: 1_000_000, entriesMax: 1_000 });
      } catch (error) {
        if (!isRefusal(error)) throw error;
      }
      rmSync(into, { recursive: true, force: true });
      if (++unpacked % 100 === 0 && readdirSync(dir).length > 0)
        throw new Error("something was written beside the layer");
    },
  };
  return {
    kinds,
    close: () => {
      scanner.close();
      rmSync(dir, { recursive: true, force: true });
      rmSync(project, { recursive: true, force: true });
    },
  };
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** A reader, the archive's or the file system's, said no; a mistake in our code looks different. */
function isRefusal(error: unknown): boolean {
  const ours = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return !ours || (error as NodeJS.ErrnoException).code === "ERR_INVALID_ARG_VALUE";
}

/** Makes changed heads of entries pass the reader's first check. */
function checksummed(tar: Buffer): Buffer {
  for (let at = 0; at + 512 <= tar.length; at += 512) {
    const head = tar.subarray(at, at + 512);
    if (head.toString("latin1", 257, 262) !== "ustar") continue;
    head.fill(0x20, 148, 156);
    const sum = head.reduce((total, byte) => total + byte, 0);
    head.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  }
  return tar;
}

async function packed(): Promise<Buffer> {
  const file = (name: string, text: string) => ({ name, content: Buffer.from(text) });
  const chunks: Buffer[] = [];
  const entries = [file("src/a.py", "x = 1\n"), file("src/b/c.py", "y = 2\n"), { name: "src/l", linkTo: "b/c.py" }];
  for await (const chunk of packTar(entries)) chunks.push(chunk);
  return Buffer.concat(chunks);
}
