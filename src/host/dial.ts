/** The way to a platform: the address that its user was given, the port that it names, and TLS to the certificate that was pinned. */
import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import { z } from "zod";
import { AGENT_DISCOVERY_MAX_BYTES, AGENT_DISCOVERY_MAX_MS, AGENT_GREETING_MAX_MS } from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import { LINK_PING_MS } from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import { PROTOCOL_VERSION } from "../domain/worker-protocol.ts";
import { hostPort } from "../lib/host-port.ts";

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

/**
 * What answers is another platform than the one whose fingerprint is known or whose volumes this machine has, or one of a version that
 * this machine does not understand: trying on is of no use.
 */
export class WrongPlatform extends SvcError {}

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
    const isBare = /^https?:\/\/[\da-f]*:[\da-f]*:/i.test(address);
    throw new SvcError("USAGE", `${JSON.stringify(address)} is no URL of a platform: write https://HOST#FINGERPRINT.`, {
      help: isBare ? "An IPv6 address stands in brackets: http://[fd00::1]:8787#FINGERPRINT." : HOW_TO_GET_IT,
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

const spoken = z.object({ protocol: z.int(), oldest: z.int().optional(), version: z.string().max(50) });
const discovery = z.object({
  port: z.int().min(1).max(65_535),
  host: z.string().max(255),
  version: z.string().max(50),
  fingerprint: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

/** Asks the platform where its hosts dial; nothing secret goes there. Throws PLATFORM_UNREACHABLE, NOT_FOUND and CONFLICT. */
export async function findWorkerPort({ url }: Pick<JoinAddress, "url">): Promise<WorkerPort> {
  const asked = `${url}/hosts/join`;
  const unreachable = (words: string, cause?: unknown) =>
    new SvcError("PLATFORM_UNREACHABLE", `The platform at ${url} ${words}.`, {
      help: isNoTls((cause as Error | undefined)?.cause)
        ? "There is no HTTPS at this address: a port for HTTP is written http://."
        : /certificate/.test(words)
          ? "Where an authority of your own has signed its certificate, name the file with that: NODE_EXTRA_CA_CERTS=FILE."
          : /ECONNREFUSED/.test(words)
            ? "Look whether the URL is right, and whether the platform listens there for other machines too (SVC_HOST=0.0.0.0 where it is started); a firewall or a proxy may stand between."
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
  if (answer.status !== 200) {
    const isForTls = answer.status === 400 && url.startsWith("http:") && /HTTPS/.test(text);
    throw unreachable(`answered with status ${answer.status}${isForTls ? ": that port is for https://" : ""}`);
  }
  const found = parsed(text);
  const { data: speaks } = spoken.safeParse(found);
  if (speaks !== undefined) checkVersion(url, speaks);
  const { data } = discovery.safeParse(found);
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

/** A platform speaks with agents of its own version of the protocol and the one before, never with newer ones. Throws CONFLICT. */
function checkVersion(url: string, { protocol, oldest = protocol, version }: z.infer<typeof spoken>): void {
  const here = `This machine's svc ${VERSION} and the platform at ${url}, svc ${version}, do not understand each other`;
  if (protocol < PROTOCOL_VERSION) {
    throw new WrongPlatform("CONFLICT", `${here}: this machine's is newer.`, {
      help: `Upgrade the platform first, or install svc ${version} on this machine.`,
    });
  }
  if (oldest > PROTOCOL_VERSION) {
    throw new WrongPlatform("CONFLICT", `${here}: this machine's is too old.`, {
      help: `Install svc ${version} on this machine. An agent that runs takes it up with systemctl reload svc-host, or kill -USR2.`,
    });
  }
}

/** A Date header has whole seconds: it is anything within the second that begins with it. */
function clockAhead(date: number, sentAt: number, receivedAt: number): number {
  if (date + 1_000 < sentAt) return date + 1_000 - sentAt;
  return date > receivedAt ? date - receivedAt : 0;
}

/** The form of an address that workers take. */
export function workersDial(
  { fingerprint }: JoinAddress,
  to: Pick<WorkerPort, "host" | "port"> | readonly string[],
): string {
  const at = "host" in to ? hostPort(to) : to.join(",");
  return `tls://${at}#${fingerprint}`;
}

/** Connects. Nothing is said before the certificate is known to be the pinned one. Throws PLATFORM_UNREACHABLE. */
export async function dialPinned({ fingerprint }: JoinAddress, { host, port }: WorkerPort): Promise<TLSSocket> {
  const at = `${host}:${port}`;
  const socket = connect({ host, port, servername: "", rejectUnauthorized: false, minVersion: "TLSv1.3" });
  socket.on("error", () => {}); // The first is thrown below; a refused handshake has several.
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, LINK_PING_MS);
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(AGENT_GREETING_MAX_MS) });
    const found = socket.getPeerX509Certificate()?.fingerprint256.replaceAll(":", "").toLowerCase();
    if (found === fingerprint) return socket;
    throw new WrongPlatform(
      "PLATFORM_UNREACHABLE",
      `What answers at ${at} is not the platform with this fingerprint.`,
      {
        help: `Its certificate has ${found ?? "none"}. A proxy before that port has to pass TLS on as it is (TCP), not to end it. Where the platform was set up anew, make a new token: ${HOW_TO_GET_IT}`,
      },
    );
  } catch (error) {
    socket.destroy();
    if (error instanceof SvcError) throw error;
    const broken = isNoTls(error) ? "does not speak TLS 1.3" : isCut(error) ? "closes the connection at once" : "";
    if (broken !== "") {
      throw new SvcError(
        "PLATFORM_UNREACHABLE",
        `What answers at ${at}, the platform's port for other machines, ${broken}.`,
        {
          help: "A proxy before that port has to reach the platform's, and to pass TCP on as it is: it is none of HTTP, and adds no PROXY header. Where machines reach it at another port, the platform is told by SVC_WORKER_PUBLIC.",
          cause: error,
        },
      );
    }
    throw new SvcError(
      "PLATFORM_UNREACHABLE",
      `The platform's port for other machines, ${at}, cannot be reached: ${reasonOf(error)}.`,
      {
        help: "It is the port of SVC_WORKER_LISTEN. Open it for this machine; where machines reach it by another name or port, the platform is told by SVC_WORKER_PUBLIC.",
        cause: error,
      },
    );
  }
}

function isNoTls(error: unknown): boolean {
  const { code = "" } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "EPROTO" || /^ERR_(SSL|TLS)_/.test(code);
}

/** Before anything was said. */
function isCut(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ECONNRESET";
}

/** Why the platform is away, with what to do where waiting is of no use. */
export function awayWords(error: unknown): string {
  const { message, help } = error as Partial<SvcError>;
  return error instanceof WrongPlatform ? `${message} ${help}` : String(message);
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
