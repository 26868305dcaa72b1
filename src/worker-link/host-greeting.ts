/**
 * Lets agents of hosts in: with a join token the first time, later with the secret that they got for it.
 *
 *   HELLO ──▶ fits here? ──▶ known secret, or good token? ──▶ its place is free? ──▶ WELCOME ──▶ its frames (drivers/hosts)
 *                └───────────────────┴───────────────────────────┴──▶ REFUSED, in words
 */
import { hashSecret, newSecret } from "../domain/api-key.ts";
import type { HostHello, HostWelcome } from "../domain/host-protocol.ts";
import { HOST_CLOCK_TOLD_MS, LINK_FRAME_COST_BYTES } from "../domain/limits.ts";
import { VERSION } from "../domain/version.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION } from "../domain/worker-protocol.ts";
import type { Frame } from "../lib/frames.ts";
import type { HostRepository, HostRow, JoinRefusal } from "../store/hosts.ts";
import type { Connection } from "./connection.ts";
import { LinkRate } from "./link-rate.ts";
import { LinksAhead } from "./links-ahead.ts";
import { answers, refuse } from "./reception.ts";

/** Who takes the hosts that were let in. */
export interface HostDoor {
  readonly hosts: Pick<HostRepository, "join" | "admit" | "findBySecret" | "seen">;
  /** The Pod that proves itself by this token, why it may not join, or undefined: it is no Pod's. Absent: there are no Pods. */
  readonly podOf?: (token: string) => Promise<JoiningPod | string | undefined>;
  /** Workers dial one of several platforms. */
  readonly several?: true;
  /** Identifies the folder of the platform's volumes. Rejects while its disk is away. */
  readonly platformId: () => Promise<string>;
  /** Machines that builds of this platform run on, as Node names them. */
  readonly runsOn: { readonly platform: string; readonly arch: string; readonly isMusl: boolean };
  readonly newId: () => string;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Takes its frames from now on. */
  attach(row: HostRow, connection: Connection): void;
  /** For the platform's log. */
  told(line: string, facts: Readonly<Record<string, unknown>>): void;
}

/** A host that a cluster made for this platform. */
export interface JoiningPod {
  readonly name: string;
  readonly uid: string;
  /** Whose workers alone may run there; "": nobody's yet. */
  readonly holder: string;
  readonly labels: readonly string[];
}

const REFUSALS: Record<JoinRefusal, string> = {
  unknown: "this platform knows no such token and no such host: it was removed, or the token is of another platform",
  used: "the token let a machine in before, and is good for one",
  expired: "the token has expired",
  revoked: "the token was revoked",
  "other-name": "the token is for a machine of another name",
  "name-taken": "another host has this name: choose one with --name, or remove that one (svc host remove)",
};

export class HostGreeting {
  readonly #door: HostDoor;
  readonly #now: () => number;
  readonly #links = new Map<string, Connection>();
  /** Hosts that are being welcomed: a second HELLO waits for the end of the first. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly ahead = new LinksAhead();

  /** `now` gives milliseconds of a monotonic clock. */
  constructor(door: HostDoor, now: () => number) {
    this.#door = door;
    this.#now = now;
  }

  async hello(connection: Connection, { token, host }: HelloHead): Promise<void> {
    const early: Frame[] = [];
    connection.onFrame = (frame) => early.push(frame);
    connection.pause();
    const unfit = host === undefined ? "it does not say which machine it is" : this.#unfit(host);
    if (host === undefined || unfit !== undefined) return refuse(connection, unfit ?? "");
    const found = await this.#find(token, host);
    if (typeof found === "string") return refuse(connection, found);
    const { row, secret } = found;
    const before = this.#turns.get(row.id);
    const turn = (before ?? Promise.resolve()).then(() => this.#letIn(connection, row, host, secret, early));
    const over = turn.catch(() => {});
    this.#turns.set(row.id, over);
    await turn.finally(() => this.#turns.get(row.id) === over && this.#turns.delete(row.id));
  }

  /** Why workers of this platform's builds cannot run there. */
  #unfit({ platform, arch, libc, driver }: HostHello): string | undefined {
    const { runsOn } = this.#door;
    // Containers bring their own C library.
    const isMusl = driver !== "process" ? runsOn.isMusl : libc.startsWith("musl");
    const words = (on: typeof runsOn) => `${on.platform} ${on.arch}${on.isMusl ? " with musl" : ""}`;
    if (platform === runsOn.platform && arch === runsOn.arch && isMusl === runsOn.isMusl) return undefined;
    return `builds of this platform are for ${words(runsOn)}, and this machine is ${words({ platform, arch, isMusl })}`;
  }

  /** Its row, or why it is not let in. */
  async #find(token: string, hello: HostHello): Promise<string | { row: HostRow; secret: string | undefined }> {
    const { hosts, newId, clock } = this.#door;
    const hash = hashSecret(token);
    const known = await hosts.findBySecret(hash);
    if (known !== undefined) return { row: known, secret: undefined };
    const { secret, hash: secretHash } = newSecret("host");
    const now = clock();
    const row = { id: newId(), secretHash, ...factsOf(hello), draining: false, joinedAt: now, lastSeenAt: now };
    const pod = await this.#door.podOf?.(token);
    if (typeof pod === "string") return pod;
    const { name, uid, holder, labels } = pod ?? { name: hello.name, uid: "", holder: "", labels: row.labels };
    const host = { ...row, name, labels, pod: uid, holder };
    const joined = pod === undefined ? await hosts.join(hash, now, host) : await hosts.admit(host);
    return typeof joined === "string" ? REFUSALS[joined] : { row: joined, secret };
  }

  async #letIn(
    connection: Connection,
    row: HostRow,
    hello: HostHello,
    secret: string | undefined,
    early: readonly Frame[],
  ): Promise<void> {
    const { hosts, clock, attach, several, told } = this.#door;
    const platformId = hello.sharedVolumes ? await this.#door.platformId().catch(() => "") : "";
    const earlier = this.#links.get(row.id);
    if (earlier?.isOpen && (await answers(earlier))) {
      return refuse(connection, "another agent of this host is connected: one is enough");
    }
    if (!connection.isOpen) return;
    // What a Pod is for was said by whoever made it.
    const facts = { ...factsOf(hello), ...(row.pod !== "" && { labels: row.labels }) };
    await hosts.seen(row.id, clock(), facts);
    const aheadMs = hello.clock - clock();
    if (Math.abs(aheadMs) > HOST_CLOCK_TOLD_MS) {
      told(`the clock of the machine ${row.name} differs from the platform's`, { aheadMs: Math.round(aheadMs) });
    }
    this.#links.set(row.id, connection);
    const onClose = connection.onClose;
    connection.onClose = () => {
      onClose();
      if (this.#links.get(row.id) === connection) this.#links.delete(row.id);
    };
    connection.onError = (error) => {
      told(`the agent of the machine ${row.name} broke the protocol`, { error: (error as Error).message });
    };
    connection.trust();
    const ahead = this.ahead.ticketFor(connection);
    const host: HostWelcome = { hostId: row.id, secret, platformId, version: VERSION, ahead, several };
    connection.send(FRAME.WELCOME, 0, { protocol: PROTOCOL_VERSION, host });
    attach({ ...row, ...facts }, connection);
    this.#limit(connection);
    try {
      for (const frame of early) connection.onFrame(frame);
    } catch (error) {
      connection.onError(error);
      connection.destroy();
    }
    connection.resume();
  }

  /** One that says more than it may is not listened to until it is within its rate again. */
  #limit(connection: Connection): void {
    const rate = new LinkRate(this.#now);
    const { onFrame } = connection;
    connection.onFrame = (frame) => {
      rate.spend(LINK_FRAME_COST_BYTES + frame.headBytes.length + frame.body.length);
      if (rate.isOverdrawn) connection.restWhile(() => rate.owedMs());
      onFrame(frame);
    };
  }
}

function factsOf({ labels, arch, version, driver, sharedVolumes }: HostHello) {
  return { labels, arch, version, driver, sharedVolumes };
}
