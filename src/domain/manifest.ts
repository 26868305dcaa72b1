/**
 * svc_manifest.json: which functions each endpoint runs and how. The keys of the service's own description
 * (resources, routes and their fields) keep their meaning; ours stand beside them. Fields: see manifest-schema.ts.
 */
import type { z } from "zod";
import type { manifestFunction, manifestParameter, manifestResource, manifestSchema } from "./manifest-schema.ts";

export type Manifest = z.infer<typeof manifestSchema>;
export type ManifestResource = z.infer<typeof manifestResource>;
export type ManifestFunction = z.infer<typeof manifestFunction>;
export type ManifestParameter = z.infer<typeof manifestParameter>;

export type JsonSchema = { readonly [key: string]: unknown };

/** Every layer a platform needs before it can run the build, each once. */
export function manifestLayers(manifest: Manifest): string[] {
  const dependencyLayers = Object.values(manifest.resources).flatMap((resource) => resource.dependencyLayer ?? []);
  return [...new Set([manifest.sourceLayer, ...dependencyLayers])];
}

/** How a job reaches a function, or a class by its `__call__` or only method; a class with several has its first one named. */
export function firstCall(fn: ManifestFunction): { method?: string; parameters: readonly ManifestParameter[] } {
  const byName = fn.methodParameters ?? {};
  const [method] = fn.methods;
  if (method === undefined || fn.methods.length === 1 || Object.hasOwn(byName, "__call__"))
    return { parameters: fn.parameters };
  return { method, parameters: byName[method] ?? [] };
}
