/** Helm with the chart of this repository. */
import path from "node:path";
import { runProcess } from "../../src/lib/run-process.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");
export const CHART = path.join(ROOT, "deploy/helm/svc");

/** That of the tests' cluster: Helm as Go builds it would take an old one. */
export const VERSION = ["--kube-version", "v1.35.4"];

/** What has to be given. */
export const NEEDED = {
  postgres: { url: "postgres://svc:secret@db.example.org/svc" },
  s3: { bucket: "layers" },
};

export class Helm {
  readonly #program: string;
  readonly #env: Readonly<Record<string, string | undefined>>;

  /** `folder`: where it keeps what it caches; `kubeconfig`: of the cluster, if it is to reach one. */
  constructor(program: string, folder: string, kubeconfig?: string) {
    this.#program = program;
    const own = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder, HOME: folder };
    this.#env = { PATH: process.env.PATH, ...own, KUBECONFIG: kubeconfig ?? "/dev/null" };
  }

  run(args: readonly string[], values?: object) {
    const given = values === undefined ? [] : ["--values", "-"];
    const input = values === undefined ? undefined : JSON.stringify(values);
    return runProcess(this.#program, [...args, ...given], { env: this.#env, input });
  }

  /** It has to succeed; what it prints. */
  async done(args: readonly string[], values?: object): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, values);
    if (code !== 0) throw new Error(`helm ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Its objects as YAML, each with what it is. */
  async template(namespace: string, values: object, release = "svc"): Promise<Rendered[]> {
    const text = await this.done(["template", release, CHART, "--namespace", namespace, ...VERSION], values);
    return text
      .split(/^---$/m)
      .map((yaml) => yaml.trim())
      .filter((yaml) => /^kind:/m.test(yaml))
      .map((yaml) => ({
        yaml,
        kind: /^kind: (\S+)/m.exec(yaml)![1]!,
        version: /^apiVersion: (\S+)/m.exec(yaml)![1]!,
        name: /^ {2}name: (\S+)/m.exec(yaml)![1]!,
      }));
  }
}

export interface Rendered {
  readonly yaml: string;
  readonly kind: string;
  readonly version: string;
  readonly name: string;
}

/** Where the API server has objects of this kind. */
export function placeOf({ kind, version }: Pick<Rendered, "kind" | "version">, namespace: string): string {
  const plural = kind.endsWith("y") ? `${kind.slice(0, -1)}ies` : `${kind}s`;
  return `/${version.includes("/") ? "apis" : "api"}/${version}/namespaces/${namespace}/${plural.toLowerCase()}`;
}
