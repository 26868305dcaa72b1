/** Machines that joined, and the tokens that let further ones join. Of tokens and secrets hashes alone are kept. */

export interface HostRow {
  readonly id: string;
  /** A DNS label, unique on the platform. */
  readonly name: string;
  /** SHA-256 of what its agent proves itself with. */
  readonly secretHash: string;
  readonly labels: readonly string[];
  /** As Node has it: "x64". */
  readonly arch: string;
  readonly version: string;
  /** "process", "docker" or "pod". */
  readonly driver: string;
  readonly sharedVolumes: boolean;
  /** It gets no further workers. */
  readonly draining: boolean;
  /** Uid of the Pod that it is; "": it is none. */
  readonly pod: string;
  /** Whose workers alone may run there, as domain/pools.ts has it; of a Pod "" stands for nobody yet. */
  readonly holder: string;
  /** Milliseconds since the epoch, as all times here. */
  readonly joinedAt: number;
  readonly lastSeenAt: number;
}

/** What an agent says of itself again at each HELLO. */
export type HostFacts = Pick<HostRow, "labels" | "arch" | "version" | "driver" | "sharedVolumes">;

export interface HostTokenRow {
  readonly id: string;
  /** SHA-256. */
  readonly tokenHash: string;
  /** The only name that a host may join under with it; "": any. */
  readonly name: string;
  /** Otherwise it is used up by the first host. */
  readonly reusable: boolean;
  /** null: never. */
  readonly expiresAt: number | null;
  readonly createdAt: number;
  /** By the last host; null: not yet. */
  readonly usedAt: number | null;
  readonly revokedAt: number | null;
  /** Id of the key it was made with. */
  readonly createdBy: string;
}

/** Why a host may not join: there is no such token, it is used up, its time is over, it was revoked; it is for another name, or the name is taken. */
export type JoinRefusal = "unknown" | "used" | "expired" | "revoked" | "other-name" | "name-taken";

export interface HostRepository {
  /** Inserts the host and notes the token's use, both or neither. */
  join(tokenHash: string, now: number, host: HostRow): Promise<HostRow | JoinRefusal>;
  /** Inserts a host that proved itself as a Pod, or gives the one of this Pod the new secret. */
  admit(host: HostRow): Promise<HostRow | "name-taken">;
  /** A Pod that was nobody's is this holder's from then on. Resolves false when it is another's, or gone. */
  hold(id: string, holder: string): Promise<boolean>;
  findBySecret(hash: string): Promise<HostRow | undefined>;
  find(id: string): Promise<HostRow | undefined>;
  /** By name. */
  list(): Promise<HostRow[]>;
  /** Resolves false when there is no such host. */
  setDraining(id: string, draining: boolean): Promise<boolean>;
  /** Notes that it was heard of, and what it says of itself. No change in the sense of onChange when nothing else changed. */
  seen(id: string, at: number, facts: HostFacts): Promise<void>;
  /** Its secret is refused from then on. Resolves false when there is no such host. */
  remove(id: string): Promise<boolean>;
  /** The oldest tokens that are over make room. */
  createToken(token: HostTokenRow): Promise<void>;
  /** Newest first. */
  listTokens(): Promise<HostTokenRow[]>;
  /** Resolves false when there is none, or it was revoked before. */
  revokeToken(id: string, at: number): Promise<boolean>;
}
