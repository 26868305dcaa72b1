/** Both ends of a link in one process: an owner with a real queue behind a private socket, and a gateway that asks it. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { hashSecret, type KeyChecker } from "../../src/domain/api-key.ts";
import type { GatewayDeps } from "../../src/gateway/context.ts";
import { PassOn } from "../../src/gateway/pass-on.ts";
import { dialPrivately, PRIVATE_SECRET_BYTES } from "../../src/gateway/private-calls.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import type { AskedOf, KnownSecret } from "../../src/gateway-link/asked.ts";
import { askedOf } from "../../src/gateway-link/asked-of.ts";
import { dialOwner } from "../../src/gateway-link/dial.ts";
import { GatewayDoor } from "../../src/gateway-link/gateway-door.ts";
import { keysOfOwner, ownerDeps } from "../../src/gateway-link/owner-deps.ts";
import type { OwnerLink } from "../../src/gateway-link/owner-link.ts";
import { keysIn, sharedSettings } from "../../src/gateway-link/settings.ts";
import { checkKeys } from "../../src/store/key-check.ts";

export interface Linked {
  readonly owner: Gateway;
  readonly gateway: Gateway;
  readonly door: GatewayDoor;
  readonly link: OwnerLink;
  readonly linkPath: string;
  readonly callsPath: string;
  readonly secret: string;
  /** Why links ended. */
  readonly gone: string[];
  close(): Promise<void>;
}

/** `secrets`: all that may be presented. */
export async function linkGateway(
  deps: GatewayDeps,
  secrets: readonly string[],
  makeReady?: AskedOf["makeReady"],
): Promise<Linked> {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-link-"));
  const [linkPath, callsPath] = [path.join(folder, "link.sock"), path.join(folder, "calls.sock")];
  const secret = randomBytes(PRIVATE_SECRET_BYTES);
  const ownerKeys = deps.ownerKeys ?? [randomBytes(32)];
  const owner = createGateway({ ...deps, ownerKeys });
  await owner.listenPrivately(callsPath, secret);
  const gone: string[] = [];
  const door = new GatewayDoor({
    ...askedOf(owner.context, keysOf(deps.keys, deps.signing?.find, secrets), (what, work) => {
      work.catch((error: Error) => deps.log.error(`${what} failed`, { error: error.message }));
    }),
    ...(makeReady && { makeReady }),
    secret: secret.toString("base64url"),
    settings: sharedSettings(owner.context),
    gone: (_pid, reason) => void gone.push(reason),
  });
  await door.listen(linkPath);
  const { link, settings } = await dialOwner(linkPath, secret.toString("base64url"));
  const keys = keysOfOwner(link);
  const passOn = new PassOn((caller) => dialPrivately(callsPath, secret, caller), deps.log);
  const gateway = createGateway({
    ...ownerDeps(link, settings, deps.traces),
    keys: checkKeys(keys, deps.now),
    ...(deps.signing && { signing: { keys: deps.signing.keys, find: deps.signing.find } }),
    ownerKeys: keysIn(settings.ownerKeys),
    newId: deps.newId,
    now: deps.now,
    monotonic: deps.monotonic,
    settings: { ...deps.settings },
    fallback: passOn.answer,
    log: deps.log,
  });
  const close = async () => {
    await gateway.close(0);
    link.close();
    await owner.close(0);
    await door.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { owner, gateway, door, link, linkPath, callsPath, secret: secret.toString("base64url"), gone, close };
}

/** The keys of a checker that knows these secrets, by their hashes. */
function keysOf(
  checker: KeyChecker,
  find: ((signer: string) => Promise<KnownSecret["principal"] | undefined>) | undefined,
  secrets: readonly string[],
) {
  const known = (principal: KnownSecret["principal"] | undefined) =>
    principal && { principal, expiresAt: null, usedAt: null };
  return {
    find: async (hash: string) => {
      const secret = secrets.find((one) => hashSecret(one) === hash);
      return secret === undefined ? undefined : known(await checker.check(secret));
    },
    findSigner: async (signer: string) => known(await find?.(signer)),
    touch: async () => {},
  };
}
