import { SvcError } from "../domain/errors.ts";
import { type RegistryLogin, registryLabel } from "../domain/registry.ts";
import type { SealedText } from "../lib/sealed-text.ts";
import type { Store } from "../store/store.ts";

/** Who pulls the image of an endpoint; undefined: anybody. Throws IMAGE_MISSING when that cannot be known any more. */
export async function registryLogin(
  store: Store,
  seal: Pick<SealedText, "open">,
  endpointId: string,
): Promise<RegistryLogin | undefined> {
  const id = (await store.endpoints.find(endpointId))?.container?.registryAuthId ?? "";
  const auth = id === "" ? undefined : await store.registryAuths.find(id);
  if (auth === undefined) return undefined;
  try {
    return JSON.parse(seal.open(auth.sealed, registryLabel(auth.id))) as RegistryLogin;
  } catch (error) {
    throw new SvcError("IMAGE_MISSING", `The registry credentials "${auth.name}" cannot be opened.`, {
      help: "They were sealed with a key that the platform does not have: set user and password again.",
      cause: error,
    });
  }
}
