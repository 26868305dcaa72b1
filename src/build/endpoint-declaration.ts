import type { EndpointKind, EndpointSettings } from "../domain/endpoint.ts";
import type { EnvValues } from "../domain/env.ts";
import type { ImageStep } from "../domain/image-steps.ts";
import type { ManifestFunction } from "../domain/manifest.ts";
import type { Schedule } from "../domain/schedule.ts";
import type { ServerSettings } from "../domain/server.ts";
import type { Place } from "./sources.ts";

export interface RouteDeclaration {
  /** Upper case. */
  readonly method: string;
  readonly path: string;
  /** It answers without a key. */
  readonly isPublic: boolean;
  readonly function: ManifestFunction;
  readonly place: Place;
}

/** One endpoint as the project's source declares it. */
export interface EndpointDeclaration {
  readonly name: string;
  readonly kind: EndpointKind;
  readonly settings: EndpointSettings;
  /** Selectors of `gpu=` as written, best first; empty for a CPU endpoint. */
  readonly gpuPreference: readonly string[];
  /** One for a queue-based endpoint; for a load-balanced one, each function once. */
  readonly functions: readonly ManifestFunction[];
  /** Empty for a queue-based endpoint. */
  readonly routes: readonly RouteDeclaration[];
  /** What answers its requests in place of functions. */
  readonly server: ServerSettings | undefined;
  /** When it is called by itself. */
  readonly schedule?: Schedule;
  /** Packages of Debian. */
  readonly systemDependencies: readonly string[];
  /** What is built on `settings.imageName`. */
  readonly imageSteps: readonly ImageStep[];
  /** Requirements as written. */
  readonly dependencies: readonly string[];
  /** Values of `env=`. */
  readonly env: EnvValues;
  /** As declared: "3.12"; undefined: the version of the local python3. */
  readonly pythonVersion: string | undefined;
  /** Of the name. */
  readonly place: Place;
  /** Of the dependencies. */
  readonly dependenciesPlace: Place | undefined;
}
