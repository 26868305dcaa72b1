/** From what a user typed to an agent that has joined its platform. */
import { SvcError } from "../domain/errors.ts";
import type { HostHello } from "../domain/host-protocol.ts";
import { unlessAborted } from "../lib/unless-aborted.ts";
import type { Config } from "../server/config.ts";
import { Agent } from "./agent.ts";
import type { AgentEvent } from "./agent-events.ts";
import { type GivenAddress, pinned } from "./dial.ts";
import { HostDirectory } from "./host-directory.ts";
import { type Caps, helloOf, hostName } from "./machine-facts.ts";
import { preflight, togetherAs } from "./preflight.ts";

export interface JoinOptions {
  readonly address: GivenAddress;
  readonly token: string | undefined;
  /** Without a name it has the one that it joined with before, else the machine's. */
  readonly hello: Pick<HostHello, "labels" | "sharedVolumes"> & { readonly name: string | undefined };
  /** Its data directory is the agent's own. */
  readonly config: Config;
  readonly caps: Caps;
  readonly layersMaxBytes: number;
  readonly graceMs: number;
  readonly told: (event: AgentEvent) => void;
  /** Ends the attempt: nothing that it started is left then. */
  readonly signal: AbortSignal;
}

/** Resolves when the platform let this machine in, or when it did so before and does not answer now. Throws SvcError. */
export async function join(options: JoinOptions): Promise<Agent> {
  const { token, config, caps, told, signal } = options;
  const directory = HostDirectory.open(config.dataDir);
  try {
    const joined = directory.membership;
    const address = await unlessAborted(pinned(options.address, joined), signal);
    const isMember = joined !== undefined && joined.url === address.url && joined.fingerprint === address.fingerprint;
    if (!isMember && token === undefined) {
      throw new SvcError("USAGE", "A token is missing: it lets this machine in.", {
        help: "svc host token create, called where the platform is managed, prints the whole command. Give it by --token-file FILE, SVC_HOST_TOKEN or --token.",
      });
    }
    const name = hostName(options.hello.name, isMember ? joined.name : undefined);
    const looked = preflight({ config, address, caps, folder: config.dataDir });
    const { ledger, port, reach, problems, warnings } = await unlessAborted(looked, signal);
    // A platform that let this machine in may be away; anything else has to be as it should.
    const inTheWay = togetherAs(reach === undefined || isMember ? problems : [reach, ...problems]);
    if (inTheWay !== undefined) throw inTheWay;
    for (const warning of warnings) told({ kind: "warning", ...warning });
    const agent = await Agent.make({
      ...options,
      address,
      directory,
      ledger,
      port: port ?? joined!,
      hello: await helloOf({ ...options.hello, name, driver: config.driver }),
    });
    await agent.start(signal);
    agent.ended.catch(() => {}).finally(() => directory.close());
    return agent;
  } catch (error) {
    directory.close();
    throw error;
  }
}
