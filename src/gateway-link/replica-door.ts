/**
 * Where other platforms on the same database dial in, by TLS 1.3. Both ends prove themselves with the one certificate whose key only they
 * have, before either says a word; what they want of each other is the protocol that they agree on in the handshake.
 */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { connect, createServer, type Server, type TLSSocket } from "node:tls";
import { cannotListen } from "../domain/cannot-listen.ts";
import { SvcError } from "../domain/errors.ts";
import { LINK_GREETERS_MAX, LINK_GREETING_MAX_MS, LINK_PING_MS } from "../domain/limits.ts";
import { AwaitedSet } from "../lib/awaited-set.ts";
import type { Certificate } from "../lib/self-signed-certificate.ts";

/**
 * Questions of a gateway (protocol.ts), calls that are passed on as plain HTTP (private-calls.ts), machines that are lent, and workers or
 * hosts that dialled another platform than theirs.
 */
export const REPLICA_PROTOCOLS = {
  link: "svc-link",
  calls: "svc-calls",
  machines: "svc-machines",
  workers: "svc-workers",
} as const;
export type ReplicaProtocol = keyof typeof REPLICA_PROTOCOLS;
const NAMES = Object.keys(REPLICA_PROTOCOLS) as ReplicaProtocol[];

export interface ReplicaAddress {
  readonly host: string;
  readonly port: number;
}

/** Gets a connection whose other end has proved itself. */
type Accept = (socket: Socket, protocol: ReplicaProtocol) => void;

export class ReplicaDoor {
  readonly #certificate: Certificate;
  readonly #accept: Accept;
  readonly #connections = new Set<Socket>();
  readonly #greeting = new AwaitedSet<Socket>();
  #server: Server | undefined;

  constructor(certificate: Certificate, accept: Accept) {
    this.#certificate = certificate;
    this.#accept = accept;
  }

  /** Resolves the port; 0 takes a free one. */
  async listen({ host, port }: ReplicaAddress): Promise<number> {
    const known = new X509Certificate(this.#certificate.cert);
    const options = {
      ...this.#certificate,
      minVersion: "TLSv1.3",
      requestCert: true,
      // Nobody vouches for it: it is this very certificate, or it is not let in.
      rejectUnauthorized: false,
      ALPNProtocols: Object.values(REPLICA_PROTOCOLS),
      handshakeTimeout: LINK_GREETING_MAX_MS,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: LINK_PING_MS,
    } as const;
    const server = createServer(options, (socket) => this.#greeted(socket, known));
    // Before a proof they are held, few at a time.
    server.on("connection", (socket: Socket) => this.#count(socket));
    server.on("tlsClientError", (_error, socket) => socket.destroy());
    await new Promise<void>((resolve, reject) => {
      // Later ones are of single connections: those dial again.
      server.on("error", (error) => reject(cannotListen(error, host, port, "SVC_REPLICA_LISTEN")));
      server.listen({ host, port }, resolve);
    });
    this.#server = server;
    return (server.address() as AddressInfo).port;
  }

  /** Resolves when whoever has come has proved itself, or is gone. */
  greeted(): Promise<void> {
    return this.#greeting.empty();
  }

  async close(): Promise<void> {
    const server = this.#server;
    const closed = server && new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of this.#connections) socket.destroy();
    await closed;
  }

  #count(socket: Socket): void {
    this.#connections.add(socket);
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      this.#connections.delete(socket);
      this.#greeting.delete(socket);
    });
    if (this.#greeting.size < LINK_GREETERS_MAX) this.#greeting.add(socket);
    else socket.destroy();
  }

  #greeted(socket: TLSSocket, known: X509Certificate): void {
    socket.on("error", () => socket.destroy());
    const protocol = protocolOf(socket);
    if (protocol === undefined || !isSame(socket, known)) socket.destroy();
    else {
      endWithPeer(socket, protocol);
      this.#accept(socket, protocol);
    }
    const raw = (socket as unknown as { _parent?: Socket })._parent;
    if (raw !== undefined) this.#greeting.delete(raw);
  }
}

/** Connects, and says nothing before both have proved themselves. Throws PLATFORM_UNREACHABLE; its cause has the system's code. */
export async function dialReplica(
  { host, port }: ReplicaAddress,
  certificate: Certificate,
  protocol: ReplicaProtocol,
): Promise<TLSSocket> {
  const trust = { ...certificate, servername: "", rejectUnauthorized: false, minVersion: "TLSv1.3" } as const;
  // The types of tls do not know allowHalfOpen.
  const half: object = { allowHalfOpen: true };
  const socket = connect({ ...trust, ...half, host, port, ALPNProtocols: [REPLICA_PROTOCOLS[protocol]] });
  socket.on("error", () => socket.destroy()); // The first is thrown below.
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true, LINK_PING_MS);
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(LINK_GREETING_MAX_MS) });
    if (isSame(socket, new X509Certificate(certificate.cert)) && protocolOf(socket) === protocol) {
      endWithPeer(socket, protocol);
      return socket;
    }
    throw new SvcError("PLATFORM_UNREACHABLE", `What answers at ${host}:${port} is no platform on the same database.`);
  } catch (error) {
    socket.destroy();
    if (error instanceof SvcError) throw error;
    const message = `The platform at ${host}:${port} cannot be reached: ${(error as Error).message}.`;
    throw new SvcError("PLATFORM_UNREACHABLE", message, { cause: error });
  }
}

/** A caller, or a worker, may say no more and still listen. A platform that says no more has ended: nothing else tells of one that is killed. */
function endWithPeer(socket: TLSSocket, protocol: ReplicaProtocol): void {
  if (protocol === "link" || protocol === "machines") socket.once("end", () => socket.destroy());
}

/** That it has the key of what it shows, TLS has checked. */
function isSame(socket: TLSSocket, known: X509Certificate): boolean {
  return socket.getPeerX509Certificate()?.raw.equals(known.raw) === true;
}

function protocolOf({ alpnProtocol }: TLSSocket): ReplicaProtocol | undefined {
  return NAMES.find((name) => REPLICA_PROTOCOLS[name] === alpnProtocol);
}
