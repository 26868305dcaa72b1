/**
 * What `svc build` and the start of the CLI take, as whole commands from a shell's point of view: start, five endpoints with
 * their dependencies cached, an edit under 500 MB of dependencies, and a first install beside plain pip and plain uv.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { atMost, type Bench, Seen } from "./bench.ts";
import { type Environment, SVC, timed, writeFiveEndpoints } from "./cli.ts";
import { LARGE_WHEELS, largeWheels } from "./large-wheels.ts";
import { pythonEnvironment } from "./processes.ts";

/** Small, pure and native packages, some with dependencies. */
const INSTALLED = ["requests", "pyyaml", "jinja2", "rich"];

export const bench: Bench = async ({ rounds }) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const seen = new Seen();
  const { note } = seen;
  const env = { ...process.env, SVC_CACHE_DIR: path.join(dir, "cache") };
  try {
    for (let round = 0; round < rounds * 3; round++) {
      note("node -e 0 ms", await timed(process.execPath, ["-e", "0"], dir, env));
      note("svc --version ms", await timed(SVC, ["--version"], dir, env));
      note("svc build --help ms", await timed(SVC, ["build", "--help"], dir, env));
    }
    await fiveEndpoints(dir, env, rounds, note);
    await thousandFiles(dir, env, rounds, note);
    await underLargeDependencies(dir, env, rounds, note);
    const uv = path.join(await pythonEnvironment("uv", ["uv"]), "uv");
    for (let round = 0; round < Math.min(rounds, 3); round++) await firstInstall(dir, env, uv, note);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  const figures = seen.medians();
  figures["svc --version / node -e 0"] = figures["svc --version ms"]! / figures["node -e 0 ms"]!;
  figures["svc build, nothing changed / node -e 0"] =
    figures["svc build, nothing changed ms"]! / figures["node -e 0 ms"]!;
  for (const tool of ["pip", "uv"])
    figures[`first install, svc / plain ${tool}`] =
      figures[`svc build, first install, ${tool} ms`]! / figures[`plain ${tool} ms`]!;
  return {
    conditions: { "first install": `${INSTALLED.join(" ")} and what they need, caches empty` },
    figures,
    bars: {
      "svc --version / node -e 0": atMost(figures["svc --version / node -e 0"]!, 3),
      "svc build, 5 endpoints, dependencies cached": atMost(figures["svc build, nothing changed ms"]!, 300, " ms"),
      "svc build, 1,000 files": atMost(figures["svc build, 1,000 files for the first time ms"]!, 1000, " ms"),
    },
  };
};

type Note = Seen["note"];

async function fiveEndpoints(dir: string, env: Environment, rounds: number, note: Note): Promise<void> {
  const project = path.join(dir, "five");
  writeFiveEndpoints(project, "0", ["six"]);
  await timed(SVC, ["build"], project, env);
  for (let round = 1; round <= rounds * 2; round++) {
    note("svc build, nothing changed ms", await timed(SVC, ["build"], project, env));
    writeFiveEndpoints(project, `${round}`, ["six"]);
    note("svc build, code changed ms", await timed(SVC, ["build"], project, env));
  }
}

/** Of 20 functions each, beside five endpoints. */
async function thousandFiles(dir: string, env: Environment, rounds: number, note: Note): Promise<void> {
  const project = path.join(dir, "thousand");
  writeFiveEndpoints(project, "0");
  for (let n = 0; n < 1_000; n++) {
    const folder = path.join(project, `part${n % 20}`);
    mkdirSync(folder, { recursive: true });
    const functions = Array.from(
      { length: 20 },
      (_, k) => `def f${k}(a: int, b: str = "x") -> dict:\n    return {"a": a, "b": b}\n`,
    );
    writeFileSync(path.join(folder, `m${n}.py`), functions.join("\n\n"));
  }
  for (let round = 0; round < rounds; round++) {
    const emptyCache = { ...env, SVC_CACHE_DIR: mkdtempSync(path.join(dir, "cache-")) };
    note("svc build, 1,000 files for the first time ms", await timed(SVC, ["build"], project, emptyCache));
    note("svc build, 1,000 files again ms", await timed(SVC, ["build"], project, emptyCache));
  }
}

async function underLargeDependencies(dir: string, env: Environment, rounds: number, note: Note): Promise<void> {
  const wheels = await largeWheels();
  const offline = { ...env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels, PIP_NO_CACHE_DIR: "1" };
  const project = path.join(dir, "large");
  writeFiveEndpoints(project, "0", LARGE_WHEELS);
  note("svc build, 500 MB newly installed ms", await timed(SVC, ["build"], project, offline));
  for (let round = 1; round <= rounds; round++) {
    writeFiveEndpoints(project, `${round}`, LARGE_WHEELS);
    note("svc build, code changed under 500 MB ms", await timed(SVC, ["build"], project, offline));
  }
}

/** Each with an empty cache; PATH decides which installer svc takes. */
async function firstInstall(dir: string, env: Environment, uv: string, note: Note): Promise<void> {
  const withUv = path.join(dir, "uv-bin");
  mkdirSync(withUv, { recursive: true });
  rmSync(path.join(withUv, "uv"), { force: true });
  symlinkSync(uv, path.join(withUv, "uv"));
  const run = async (figure: string, command: string, args: string[], more: Environment = {}) => {
    const project = mkdtempSync(path.join(dir, "install-"));
    writeFiveEndpoints(project, "0", INSTALLED);
    const caches = {
      SVC_CACHE_DIR: path.join(project, "cache"),
      PIP_CACHE_DIR: path.join(project, "pip"),
      UV_CACHE_DIR: path.join(project, "uv"),
    };
    const all = { ...env, ...caches, ...more };
    note(figure, await timed(command, args, project, all));
    rmSync(project, { recursive: true, force: true });
  };
  const target = ["--target", "out", "--only-binary", ":all:", ...INSTALLED];
  await run("plain pip ms", "python3", ["-m", "pip", "install", "-q", ...target]);
  await run("svc build, first install, pip ms", SVC, ["build"]);
  await run("plain uv ms", uv, ["pip", "install", "-q", "--python", "python3", "--compile-bytecode", ...target]);
  await run("svc build, first install, uv ms", SVC, ["build"], { PATH: `${withUv}${path.delimiter}${env.PATH}` });
}
