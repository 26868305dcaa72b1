/** Registries that ask who pulls an image. */

export interface RegistryLogin {
  readonly username: string;
  readonly password: string;
}

/** Where an image's name says that it is kept; Docker Hub when it names no host. */
export function registryOf(imageName: string): string {
  const [first = "", rest] = imageName.split("/", 2);
  const isHost = rest !== undefined && (/[.:]/.test(first) || first === "localhost");
  return isHost ? first : "https://index.docker.io/v1/";
}

/** What sealed credentials are bound to, so that they open in their own place only. */
export function registryLabel(id: string): string {
  return `registry ${id}`;
}
