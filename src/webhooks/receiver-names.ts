/**
 * Where a receiver is. Strangers choose its name, and name servers of theirs may let everybody wait:
 *
 *   name ──▶ the name servers, by sockets of its own ──none was told──▶ the system (its hosts file, its search domains), one name at a time
 *
 * The system keeps one of a few threads for each name, also after whoever asked has gone, and the platform needs them for its database's and
 * its bucket's. A name without a dot is the system's.
 */
import type { LookupAddress } from "node:dns";
import { lookup, Resolver } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { WEBHOOK_NAME_ASK_MS } from "../domain/limits.ts";
import { Turns } from "../lib/turns.ts";

const system = new Turns(1);

/** `node:net` looks names up by this. `admit` throws, or gives those of the addresses that may be dialled; nothing is looked up for an aborted `signal`. */
export function receiverLookup(
  signal: AbortSignal,
  admit: (name: string, addresses: readonly LookupAddress[]) => readonly LookupAddress[],
): LookupFunction {
  return (name, options, done) => {
    const found = addressesOf(name, signal).then((addresses) => admit(name, addresses));
    found.then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) done(null, [...addresses]);
        else done(null, first!.address, first!.family);
      },
      (error: NodeJS.ErrnoException) => done(error, []),
    );
  };
}

async function addressesOf(name: string, signal: AbortSignal): Promise<LookupAddress[]> {
  const found = name.includes(".") ? await asked(name) : [];
  if (found.length > 0) return found;
  return system.take(async () => {
    signal.throwIfAborted();
    return lookup(name, { all: true });
  });
}

async function asked(name: string): Promise<LookupAddress[]> {
  // A new one each time: it knows the name servers of now.
  const resolver = new Resolver({ timeout: WEBHOOK_NAME_ASK_MS, tries: 1 });
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const of = (answer: PromiseSettledResult<string[]>, family: number) =>
    answer.status === "fulfilled" ? answer.value.map((address) => ({ address, family })) : [];
  return [...of(v4, 4), ...of(v6, 6)];
}
