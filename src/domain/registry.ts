/** Registries that ask who pulls an image. */

export interface RegistryLogin {
  readonly username: string;
  readonly password: string;
}

/** What sealed credentials are bound to, so that they open in their own place only. */
export function registryLabel(id: string): string {
  return `registry ${id}`;
}
