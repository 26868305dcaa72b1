/** The programs of Kubernetes for tests, etcd and the API server: built once from their Go modules (test/kubernetes/program) and kept in a cache folder. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import path from "node:path";
import { CACHE } from "../../bench/processes.ts";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";

const SOURCES = path.join(import.meta.dirname, "program");
const BUILD_MAX_MS = 2_400_000;

export type Found = { readonly program: string } | { readonly missing: string };

/** As it was built before: a build takes five minutes of two processors, longer than tests may hold up others. */
export function findKubernetes(): Found {
  const program = path.join(folder(), "kubernetes");
  return existsSync(program) ? { program } : { missing: "Kubernetes is not built yet: make test-cluster builds it" };
}

/** Builds it when it is missing. */
export async function buildKubernetes(): Promise<Found> {
  const found = findKubernetes();
  if ("program" in found) return found;
  const go = onPath("go", process.env.PATH ?? "");
  if (go === undefined) return { missing: "Kubernetes is built with Go, which is not installed" };
  // It stays until the build is done: one that is ended goes on there.
  const coming = path.join(CACHE, "kubernetes-coming");
  const sources = path.join(coming, String(process.pid));
  mkdirSync(coming, { recursive: true });
  cpSync(SOURCES, sources, { recursive: true });
  try {
    const modules = { GOMODCACHE: path.join(coming, "modules"), GOCACHE: path.join(coming, "compiled") };
    const env = { ...process.env, ...modules, CGO_ENABLED: "0", GOFLAGS: "-modcacherw -trimpath -mod=readonly" };
    const version = versionWanted();
    const [major, minor] = version.replace("v", "").split(".");
    const facts = [`gitVersion=${version}`, `gitMajor=${major}`, `gitMinor=${minor}`, "gitTreeState=clean"];
    const named = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
    const linked = named.flatMap((name) => facts.map((fact) => `-X ${name}.${fact}`)).join(" ");
    // Both processors are busy for minutes: what else runs there comes first.
    const args = ["-n", "19", go, "build", "-p", "2", "-ldflags", `-s -w ${linked}`, "-o", "kubernetes", "."];
    const result = await runProcess("nice", args, { cwd: sources, env, signal: AbortSignal.timeout(BUILD_MAX_MS) });
    if (result.code !== 0) return { missing: `"go build" of it failed: ${result.stderr.trim().split("\n").at(-1)}` };
    mkdirSync(folder(), { recursive: true });
    renameSync(path.join(sources, "kubernetes"), path.join(folder(), "kubernetes"));
    rmSync(coming, { recursive: true, force: true });
    return findKubernetes();
  } finally {
    rmSync(sources, { recursive: true, force: true });
  }
}

function folder(): string {
  const sources = ["main.go", "go.mod", "go.sum"].map((file) => readFileSync(path.join(SOURCES, file)));
  const hash = createHash("sha256").update(Buffer.concat(sources)).digest("hex").slice(0, 12);
  return path.join(CACHE, `kubernetes-${versionWanted()}-${process.arch}-${hash}`);
}

function versionWanted(): string {
  return /^require k8s\.io\/kubernetes (v\S+)$/m.exec(readFileSync(path.join(SOURCES, "go.mod"), "utf8"))![1]!;
}
