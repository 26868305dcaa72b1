import type { EnvValues } from "../domain/env.ts";
import type { Manifest } from "../domain/manifest.ts";

/** One tar member stream of the artifact, compressed once and kept in the layer cache. */
export interface BuiltLayer {
  /** SHA-256 (hex) of the compressed bytes: the layer's address on the platform. */
  readonly digest: string;
  readonly kind: "source" | "dependencies";
  readonly sizeBytes: number;
  /** File in the layer cache with the compressed bytes. */
  readonly path: string;
}

export interface BuildResult {
  readonly manifest: Manifest;
  readonly layers: readonly BuiltLayer[];
  /** `<project>/.svc/artifact.tar.gz` */
  readonly artifactPath: string;
  readonly artifactBytes: number;
  /** Values of `env=` by endpoint name. They travel beside the manifest, never inside the artifact. */
  readonly env: Readonly<Record<string, EnvValues>>;
  readonly warnings: readonly Diagnostic[];
  /** What was left out because the base image has it: endpoint name → requirements. */
  readonly leftOut: Readonly<Record<string, readonly string[]>>;
}

/** A finding of the scan, with the place in the user's file. */
export interface Diagnostic {
  readonly severity: "error" | "warning";
  /** Stable name of the rule: `duplicate-name`, `unknown-keyword`, `syntax-error`. */
  readonly rule: string;
  readonly message: string;
  /** What to do. */
  readonly help: string;
  /** Relative to the project; undefined for a finding about the whole project. */
  readonly file?: string;
  /** From 1. */
  readonly line?: number;
  readonly column?: number;
  /** The source line, for the code frame. */
  readonly source?: string;
  /** Width of the marked part in characters. */
  readonly length?: number;
}
