/**
 * What the tests of this folder need of Kubernetes: its daemons as one program (test/kubernetes/program), Helm, and kwok. `make test-cluster` builds
 * them from their Go modules, and they are kept in a cache folder; without that the tests are skipped.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { CACHE } from "../../bench/processes.ts";
import { type Found, goBuild } from "../go-build.ts";

const SOURCES = path.join(import.meta.dirname, "program");
const HELM_VERSION = "v3.20.2";
const KWOK_VERSION = "v0.8.0";

/** etcd, the API server, the controllers, the scheduler and the kubelet, as one program that was built before. */
export function findKubernetes() {
  return found(
    "Kubernetes",
    path.join(CACHE, `kubernetes-${versionWanted()}-${process.arch}-${digest()}`, "kubernetes"),
  );
}

/** Helm, which was built before. */
export function findHelm() {
  return found("Helm", path.join(CACHE, `helm-${HELM_VERSION}-${process.arch}`, "helm"));
}

/** Plays nodes and what runs on them, as many as are asked for; which was built before. */
export function findKwok() {
  return found("kwok", path.join(CACHE, `kwok-${KWOK_VERSION}-${process.arch}`, "kwok"));
}

/** Builds it when it is missing. */
export async function buildKubernetes(): Promise<Found> {
  const there = findKubernetes();
  if ("program" in there) return there;
  const version = versionWanted();
  const [major, minor] = version.replace("v", "").split(".");
  const facts = [`gitVersion=${version}`, `gitMajor=${major}`, `gitMinor=${minor}`, "gitTreeState=clean"];
  const named = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
  const linked = named.flatMap((name) => facts.map((fact) => `-X ${name}.${fact}`)).join(" ");
  return goBuild({
    ...{ name: "Kubernetes", program: there.at },
    args: () => ["build", "-mod=readonly", "-p", "2", "-ldflags", `-s -w ${linked}`, "-o", "kubernetes", "."],
    prepare: (sources) => cpSync(SOURCES, sources, { recursive: true }),
  });
}

/** The same for Helm, */
export function buildHelm(): Promise<Found> {
  return install("Helm", findHelm(), `helm.sh/helm/v3/cmd/helm@${HELM_VERSION}`);
}

/** and for kwok. */
export function buildKwok(): Promise<Found> {
  return install("kwok", findKwok(), `sigs.k8s.io/kwok/cmd/kwok@${KWOK_VERSION}`);
}

async function install(name: string, there: ReturnType<typeof found>, what: string): Promise<Found> {
  if ("program" in there) return there;
  return goBuild({ name, program: there.at, args: () => ["install", "-p", "2", "-ldflags", "-s -w", what] });
}

function found(
  name: string,
  at: string,
): { readonly program: string } | { readonly missing: string; readonly at: string } {
  return existsSync(at) ? { program: at } : { missing: `${name} is not built yet: make test-cluster builds it`, at };
}

function digest(): string {
  const sources = ["main.go", "go.mod", "go.sum"].map((file) => readFileSync(path.join(SOURCES, file)));
  return createHash("sha256").update(Buffer.concat(sources)).digest("hex").slice(0, 12);
}

function versionWanted(): string {
  return /^require k8s\.io\/kubernetes (v\S+)$/m.exec(readFileSync(path.join(SOURCES, "go.mod"), "utf8"))![1]!;
}
