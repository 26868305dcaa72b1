/** The way to a platform: the address that its user was given, the port that it names, and TLS to the certificate that was pinned. */
import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import { z } from "zod";
import { AGENT_DISCOVERY_MAX_BYTES, AGENT_DISCOVERY_MAX_MS, AGENT_GREETING_MAX_MS } from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import { LINK_PING_MS } from "../domain/limits.ts";

/** What a user typed: `URL#FINGERPRINT`, or an https URL alone. */
export interface GivenAddress {
  /** Base URL of the platform's HTTP side, without a slash at its end. */
  readonly url: string;
  /** SHA-256 of the worker link's certificate, lower-case hexadecimal. */
  readonly fingerprint: string | undefined;
}

export interface JoinAddress extends GivenAddress {
  readonly fingerprint: string;
}

/** Where the platform's hosts and their workers dial. */
export interface WorkerPort {
  readonly host: string;
  readonly port: number;
  /** Version of the platform. */
  readonly version: string;
  /** The platform's clock minus this machine's, in milliseconds, as well as a Date header tells; undefined without one. */
  readonly clockAheadMs: number | undefined;
  /** As it says itself: who told it is known only where the URL is https. */
  readonly fingerprint: string | undefined;
}

/** What answers is another platform than the one whose fingerprint is known. */
export class OtherPlatform extends SvcError {}

const HOW_TO_GET_IT =
  "svc host token create, called where the platform is managed, prints the whole command with URL and fingerprint.";

/** Throws USAGE. */
export function joinAddress(text: string): GivenAddress {
  const [address = "", fingerprint = ""] = text.split("#", 2);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (
    url === undefined ||
    (url.protocol !== "http:" && url.protocol !== "https:") ||
    url.username !== "" ||
    url.search !== ""
  ) {
    throw new SvcError("USAGE", `${JSON.stringify(address)} is no URL of a platform: write https://HOST#FINGERPRINT.`, {
      help: HOW_TO_GET_IT,
    });
  }
  const base = url.href.replace(/[#/]*$/, "");
  if (fingerprint === "" && url.protocol === "https:") return { url: base, fingerprint: undefined };
  if (fingerprint === "") {
    throw new SvcError(
      "USAGE",
      "The platform's fingerprint is missing: this machine would not know whom it gives its token to.",
      {
        where: text,
        help: `Write it behind the URL: ${url.origin}#FINGERPRINT, in quotes where the shell takes # for a comment; or a URL with https, whose certificate this machine trusts. ${HOW_TO_GET_IT}`,
      },
    );
  }
  if (!/^[0-9a-f]{64}$/i.test(fingerprint)) {
    throw new SvcError("USAGE", "What is behind # is no fingerprint: it has 64 hexadecimal digits.", {
      where: text,
      help: HOW_TO_GET_IT,
    });
  }
  return { url: base, fingerprint: fingerprint.toLowerCase() };
}

/**
 * Where the user gave no fingerprint: the one that this machine joined with, else what the platform says over HTTPS, which an
 * authority that this machine trusts vouches for. Throws PLATFORM_UNREACHABLE, NOT_FOUND and USAGE.
 */
export async function pinned(
  { url, fingerprint }: GivenAddress,
  joined: JoinAddress | undefined,
): Promise<JoinAddress> {
  const known = fingerprint ?? (joined?.url === url ? joined.fingerprint : (await findWorkerPort({ url })).fingerprint);
  if (known !== undefined) return { url, fingerprint: known };
  throw new SvcError("USAGE", `The platform at ${url} does not say its fingerprint: it is of an earlier version.`, {
    help: HOW_TO_GET_IT,
  });
}

const discovery = z.object({
  protocol: z.literal(1),
  port: z.int().min(1).max(65_535),
  host: z.string().max(255),
  version: z.string().max(50),
  fingerprint: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

/** Asks the platform where its hosts dial; nothing secret goes there. Throws PLATFORM_UNREACHABLE and NOT_FOUND. */
export async function findWorkerPort({ url }: Pick<JoinAddress, "url">): Promise<WorkerPort> {
  const asked = `${url}/hosts/join`;
  const unreachable = (words: string, cause?: unknown) =>
    new SvcError("PLATFORM_UNREACHABLE", `The platform at ${url} ${words}.`, {
      help: /certificate/.test(words)
        ? "Where an authority of your own has signed its certificate, name the file with that: NODE_EXTRA_CA_CERTS=FILE."
        : "Look whether the URL is right, and whether this machine reaches it: a firewall, a proxy or DNS may stand between.",
      cause,
    });
  const sentAt = Date.now();
  const answer = await fetch(asked, { redirect: "manual", signal: AbortSignal.timeout(AGENT_DISCOVERY_MAX_MS) }).catch(
    (error: unknown) => {
      throw unreachable(`cannot be reached: ${reasonOf(error)}`, error);
    },
  );
  const text = await firstText(answer, AGENT_DISCOVERY_MAX_BYTES).catch((error: unknown) => {
    throw unreachable(`did not finish its answer: ${reasonOf(error)}`, error);
  });
  if (answer.status === 404) {
    throw new SvcError("NOT_FOUND", `The platform at ${url} takes no other machines.`, {
      help: "Start it with SVC_WORKER_LISTEN=tls://0.0.0.0:8788, so that it listens for them; or the URL leads to something else.",
    });
  }
  if (answer.status >= 300 && answer.status < 400) {
    const to = answer.headers.get("location") ?? "elsewhere";
    throw unreachable(`sends this machine to ${to}: join with the URL where it is`);
  }
  if (answer.status !== 200) throw unreachable(`answered with status ${answer.status}`);
  const { data } = discovery.safeParse(parsed(text));
  if (data === undefined) throw unreachable("does not answer as a platform of this version does");
  const date = Date.parse(answer.headers.get("date") ?? "");
  return {
    host: data.host === "" ? new URL(url).hostname.replace(/^\[|\]$/g, "") : data.host,
    port: data.port,
    version: data.version,
    fingerprint: data.fingerprint,
    clockAheadMs: Number.isNaN(date) ? undefined : clockAhead(date, sentAt, Date.now()),
  };
}

/** A Date header has whole seconds: it is anything within the second that begins with it. */
function clockAhead(date: number, sentAt: number, receivedAt: number): number {
  if (date + 1_000 < sentAt) return date + 1_000 - sentAt;
  return date > receivedAt ? date - receivedAt : 0;
}

/** The form of an address that workers take. */
export function workersDial({ fingerprint }: JoinAddress, { host, port }: Pick<WorkerPort, "host" | "port">): string {
  return `tls://${host.includes(":") ? `[${host}]` : host}:${port}#${fingerprint}`;
}

/** Connects. Nothing is said before the certificate is known to be the pinned one. Throws PLATFORM_UNREACHABLE. */
export async function dialPinned({ fingerprint }: JoinAddress, { host, port }: WorkerPort): Promise<TLSSocket> {
  const at = `${host}:${port}`;
  const socket = connect({ host, port, servername: "", rejectUnauthorized: false, minVersion: "TLSv1.3" });
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, LINK_PING_MS);
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(AGENT_GREETING_MAX_MS) });
    const found = socket.getPeerX509Certificate()?.fingerprint256.replaceAll(":", "").toLowerCase();
    if (found === fingerprint) return socket;
    throw new OtherPlatform(
      "PLATFORM_UNREACHABLE",
      `What answers at ${at} is not the platform with this fingerprint.`,
      {
        help: `Its certificate has ${found ?? "none"}. A proxy before that port has to pass TLS on as it is (TCP), not to end it. Where the platform was set up anew, make a new token: ${HOW_TO_GET_IT}`,
      },
    );
  } catch (error) {
    socket.on("error", () => {}).destroy();
    if (error instanceof SvcError) throw error;
    throw new SvcError(
      "PLATFORM_UNREACHABLE",
      `The platform's port for other machines, ${at}, cannot be reached: ${reasonOf(error)}.`,
      {
        help: "It is the port of SVC_WORKER_LISTEN. Open it for this machine: no proxy of HTTP can stand before it.",
        cause: error,
      },
    );
  }
}

/** Why the platform is away, with what to do where waiting is of no use. */
export function awayWords(error: unknown): string {
  const { message, help } = error as Partial<SvcError>;
  return error instanceof OtherPlatform ? `${message} ${help}` : String(message);
}

export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError" || error.name === "AbortError") return "no answer came in time";
  const { cause } = error;
  if (cause instanceof AggregateError) return reasonOf(cause.errors[0]);
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** As much of it as is read. */
async function firstText(answer: Response, maxBytes: number): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    parts.push(chunk);
    size += chunk.length;
    if (size > maxBytes) break;
  }
  return Buffer.concat(parts).subarray(0, maxBytes).toString("utf8");
}
