/**
 * What the platform and the agent of a host say to each other, over the worker link's TLS port (docs/reference/protocol.md,
 * "Hosts"). A host is a machine that offers its capacity; its agent is a driver, a launcher and their files without a platform.
 *
 *   agent ──HELLO role "host"──▶ platform      with a join token, later with the secret that the first WELCOME gave
 *   agent ◀──WELCOME─────────── platform       who it is, and where its workers dial
 *   agent ──STATE─────────▶ platform      what the machine has and which workers run: first of all, and after each break
 *   agent ◀──ASK / ANSWER──────▶ platform      the calls of a driver, by id; REPORT is a line about one that is under way
 *   agent ──EVENT──────────────▶ platform      what a driver tells
 *
 * The platform alone decides who gets what of a host: a START carries the worker's share. Ends of workers that the agent sees
 * while the link is down are in `ended` of the next STATE, before the list of those that run.
 */
import { z } from "zod";
import type { Machine, Share } from "./capacity.ts";
import { HOST_LABEL, HOST_NAME, HOST_NAME_RULE, type InUse } from "./host.ts";

/** Frame types that only hosts and the platform use; HELLO, WELCOME, REFUSED, PING and PONG are as for workers. */
export const HOST_FRAME = { STATE: 48, ASK: 49, ANSWER: 50, REPORT: 51, EVENT: 52 } as const;

/** What an agent says of itself in HELLO, beside its token. */
export interface HostHello {
  /** As its user calls it; a DNS label, unique on the platform. */
  readonly name: string;
  readonly version: string;
  /** As Node has them: "linux", "x64". */
  readonly platform: string;
  readonly arch: string;
  /** "glibc 2.36", "musl 1.2"; "" when not known. */
  readonly libc: string;
  /** "process", "docker" or "pod". */
  readonly driver: string;
  readonly labels: readonly string[];
  /** Its volumes' folder is the platform's own, by a shared file system. */
  readonly sharedVolumes: boolean;
  /** Wall clock of the machine, milliseconds since the epoch: a large difference is told. */
  readonly clock: number;
}

/** What a WELCOME has for a host beside the protocol. */
export interface HostWelcome {
  readonly hostId: string;
  /** What it proves itself with from now on; only in answer to a join token. */
  readonly secret?: string;
  /** Identifies the platform's shared volumes folder: `<volumes>/.svc-platform` holds it. */
  readonly platformId: string;
  readonly version: string;
  /** Lets links of this machine wait for their workers, as long as the agent's own is open. */
  readonly ahead?: string | undefined;
  /** Workers dial one of several platforms, which this one is among: when it is another, they go on. */
  readonly several?: true | undefined;
}

/** The body of a STATE, which is larger than heads may be. */
export interface HostState {
  readonly machine: Machine;
  readonly workers: readonly { readonly worker: string; readonly share: Share }[];
  /** Ends that nobody was told of. */
  readonly ended: readonly HostWorkerExit[];
  /** What the host lacks of what keeps workers apart, in words. */
  readonly missing: readonly string[];
  readonly freeDiskBytes: number;
}

export interface HostWorkerExit {
  readonly workerId: string;
  readonly code: number | null;
  readonly signal: string | null;
  readonly reason: string;
  readonly cause?: "machine" | "silence" | undefined;
}

/** Where an agent fetches a layer: `bucketUrl`, or `GET <platform>/layers/<digest>` with `Authorization: Bearer <ticket>`; ranges allowed. */
export interface LayerTicket {
  readonly digest: string;
  readonly bytes: number;
  readonly ticket: string;
  /** Presigned, for a GET of the same bytes from the platform's bucket; ranges allowed. It may not be reachable from there. */
  readonly bucketUrl?: string | undefined;
}

/**
 * The calls of a driver as they travel: the head has `id`, `call` and small arguments, the body is the JSON of the rest.
 * What they answer is in the ANSWER's body.
 *
 *   prepare   body { image: WorkerImage, layers: LayerTicket[] }         answers {}; REPORTs on the way
 *   start     body { spec: WorkerSpec, share: Share }                    answers {}
 *   stop      body { workerId, graceMs }                                 answers {}
 *   retire    body { endpointId, revision }                              answers {}
 *   vouched   no body                                                    answers { workers: string[] }
 *   unused    body { keep: WorkerImage[], before }                       answers {}   (removeUnused)
 */
export type HostCall = "prepare" | "start" | "stop" | "retire" | "vouched" | "unused";

/**
 * What platforms that share endpoints ask of each other for machines: the same calls, where a START has no share yet, and
 *
 *   list      no body                                                    answers { workers: string[] | null }, null: not known yet
 *   capacity  no body                                                    answers LentCapacity
 *   wants     no body, asked by who lends                                answers { wants: { endpointId, missing }[] }
 *   room      body { waits }, asked by who lends                         answers RoomSide (rivals.ts)
 *   rivals    body RivalsAsked                                           answers Rivals: the room of all others
 *   take      body RoomTake, asked by either                             answers {}; passed on to whoever has the endpoint
 *
 * One of an earlier version does not know the last three, and says so: its workers stay, and nobody makes room for its endpoints.
 */
export type LendCall = "list" | "capacity" | "wants" | "room" | "rivals" | "take";

/** Machines that are lent. What one has prepared is said where it runs nothing else: of others that is known when a start is asked for. */
export interface LentCapacity {
  readonly machines: readonly (Machine & {
    readonly id: string;
    readonly name: string;
    readonly labels: readonly string[];
    readonly sharedVolumes: boolean;
    readonly closed?: string | undefined;
    readonly potential?: true | undefined;
    readonly kept?: string | undefined;
    readonly prepared?: readonly string[] | undefined;
  })[];
  /** Whoever's they are. */
  readonly shares: readonly (readonly [worker: string, share: Share])[];
}

/** Workers that an endpoint waits for. */
export interface RoomWant {
  readonly endpointId: string;
  readonly missing: number;
}

export interface AskHead {
  readonly id: number;
  /** A platform of a later version may have further ones. */
  readonly call: string;
}

export interface AnswerHead {
  readonly id: number;
  /** Absent: it was done. */
  readonly error?: { readonly code: string; readonly message: string; readonly help?: string | undefined } | undefined;
}

export interface ReportHead {
  readonly id: number;
  readonly line: string;
}

/**
 * What a driver tells, in an EVENT's head: `workerId` and `stream` have their own places there, the rest is `of`, as an object with
 * the names below. The text of `log` and `programPrinted` is the body.
 *
 *   exited {…HostWorkerExit} · started {head: StartedHead} · bootFailed {workerId, failure} · log, programPrinted {workerId, stream}
 *   available {} · told {line, facts} · used {…InUse} · state: use STATE
 *   drains {workerId, why}: of who lends machines, about a worker that is to finish what it has
 *   leaving {graceMs}: the agent is to end. No worker may be started there any more, those that run are to be drained; when
 *   none is left, or after the grace, it ends by itself
 */
export type HostEvent =
  | "exited"
  | "started"
  | "bootFailed"
  | "log"
  | "programPrinted"
  | "available"
  | "told"
  | "used"
  | "drains"
  | "leaving";

export interface EventHead {
  /** An agent of a later version may have further ones. */
  readonly event: string;
  /** The worker it is about, if it is about one. */
  readonly workerId?: string | undefined;
  readonly stream?: "stdout" | "stderr" | undefined;
  /** The rest, as the event has it. */
  readonly of?: unknown;
}

/** What a worker has of a host. */
export const hostShare = z.object({
  vcpus: z.number().nonnegative(),
  memoryGb: z.number().nonnegative(),
  gpus: z.array(z.int().nonnegative()).max(64),
  gpuFraction: z.number().positive().max(1).optional(),
});

const machine = z.object({
  hardware: z.object({ vcpus: z.number().positive(), memoryGb: z.number().positive() }),
  vcpus: z.number().positive(),
  memoryGb: z.number().positive(),
  gpus: z.array(z.object({ product: z.string().max(200), emulated: z.boolean() })).max(64),
  emulatesGpu: z.boolean(),
});

const exit = z.object({
  workerId: z.string().max(100),
  code: z.int().nullable(),
  signal: z.string().max(20).nullable(),
  reason: z.string().max(4_000),
  cause: z.enum(["machine", "silence"]).optional(),
});

export const hostHelloHead = z.object({
  name: z.string().regex(HOST_NAME, HOST_NAME_RULE),
  version: z.string().max(50),
  platform: z.string().max(50),
  arch: z.string().max(50),
  libc: z.string().max(50),
  driver: z.enum(["process", "docker", "pod"]),
  labels: z.array(z.string().regex(HOST_LABEL)).max(32),
  sharedVolumes: z.boolean(),
  clock: z.number(),
});

const welcome = z.object({
  hostId: z.string().max(100),
  secret: z.string().max(200).optional(),
  platformId: z.string().max(100),
  version: z.string().max(50),
  ahead: z.string().max(200).optional(),
  several: z.literal(true).optional(),
});

const state = z.object({
  machine,
  workers: z.array(z.object({ worker: z.string().max(100), share: hostShare })).max(10_000),
  ended: z.array(exit).max(10_000),
  missing: z.array(z.string().max(500)).max(50),
  freeDiskBytes: z.number().nonnegative(),
});

const amount = z.number().nonnegative().max(1e9);
const inUse = z.object({
  vcpus: amount,
  memoryGb: amount,
  gpus: z
    .array(z.object({ index: z.int().nonnegative(), busy: amount.max(1).nullable(), memoryGb: amount.nullable() }))
    .max(64),
});

const lentMachine = machine.extend({
  ...{ id: z.string().max(100), name: z.string().max(300), labels: z.array(z.string().max(100)).max(100) },
  ...{ sharedVolumes: z.boolean(), closed: z.string().max(2_000).optional(), potential: z.literal(true).optional() },
  ...{ kept: z.string().max(2_000).optional(), prepared: z.array(z.string().max(700)).max(10_000).optional() },
});
const lent = z.object({
  machines: z.array(lentMachine).max(10_000),
  shares: z
    .array(z.tuple([z.string().max(100), hostShare.extend({ host: z.string().max(100).optional() })]))
    .max(100_000),
});
const wants = z.object({
  wants: z.array(z.object({ endpointId: z.string().max(100), missing: z.int().nonnegative().max(10_000) })).max(20_000),
});

const id = z.int().nonnegative();
const ask = z.object({ id, call: z.string().max(50) });
const answer = z.object({
  id,
  error: z
    .object({ code: z.string().max(100), message: z.string().max(8_000), help: z.string().max(8_000).optional() })
    .optional(),
});
const report = z.object({ id, line: z.string().max(2_000) });
const event = z.object({
  event: z.string().max(50),
  workerId: z.string().max(100).optional(),
  stream: z.enum(["stdout", "stderr"]).optional(),
  of: z.unknown().optional(),
});

export const hostWelcome = (value: unknown): HostWelcome => welcome.parse(value);
export const hostState = (value: unknown): HostState => state.parse(value);
export const hostWorkerExit = (value: unknown): HostWorkerExit => exit.parse(value);
export const hostInUse = (value: unknown): InUse => inUse.parse(value);
export const lentCapacity = (value: unknown): LentCapacity => lent.parse(value) as LentCapacity;
export const roomWants = (value: unknown): readonly RoomWant[] => wants.parse(value).wants;
export const askHead = (value: unknown): AskHead => ask.parse(value);
export const answerHead = (value: unknown): AnswerHead => answer.parse(value);
export const reportHead = (value: unknown): ReportHead => report.parse(value);
export const eventHead = (value: unknown): EventHead => event.parse(value);
