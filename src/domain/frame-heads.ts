/**
 * Heads of frames from workers and launchers, checked: whoever runs user code may say anything. Each function gives its
 * head back or throws what is wrong with it. Those of frames that come for every job or request are written by hand.
 */
import { z } from "zod";
import { hostHelloHead } from "./host-protocol.ts";
import { CHANNEL_MAX, MAX_CONCURRENCY_LIMIT } from "./limits.ts";
import type {
  BootFailure,
  CreditHead,
  ExitedHead,
  HeldJob,
  HelloHead,
  JobResultHead,
  LogHead,
  RequestResultHead,
  StartedHead,
  WorkersHead,
} from "./worker-protocol.ts";

const duration = z.number().nonnegative();
const channel = z.int().min(1).max(CHANNEL_MAX);

const heldJobs = z
  .array(z.object({ channel, job: z.string(), fence: z.int(), heldMs: duration.optional() }))
  .refine((held) => new Set(held.map((entry) => entry.channel)).size === held.length, "a channel is there twice");

const hello = z.object({
  protocol: z.number(),
  role: z.enum(["worker", "launcher", "host", "ahead"]),
  token: z.string(),
  worker: z.string().optional(),
  pid: z.int().optional(),
  unacknowledged: heldJobs.optional(),
  pulls: z.literal(true).optional(),
  host: hostHelloHead.optional(),
});

const credit = z.object({
  slots: z.int().min(1).max(MAX_CONCURRENCY_LIMIT),
  window: z.int().min(1).optional(),
  bootMs: duration.optional(),
  importMs: duration.optional(),
});

const bootFailure = z.object({
  worker: z.string().optional(),
  error_type: z.string(),
  error_message: z.string(),
  error_traceback: z.string(),
});

const share = z.object({
  vcpus: duration,
  memoryGb: duration,
  gpus: z.array(z.int().nonnegative()),
  gpuFraction: z.number().positive().max(1).optional(),
});

const workers = z.object({
  workers: z.array(z.object({ worker: z.string(), pid: z.int(), share: share.nullish() })),
  missing: z.array(z.string()).optional(),
  strict: z.boolean().optional(),
});

const started = z.object({
  worker: z.string(),
  pid: z.int(),
  how: z.enum(["fork", "spawn"]),
  reason: z.string().optional(),
  limits: z.string().optional(),
  isolation: z.string().optional(),
});

const exited = z.object({
  worker: z.string(),
  code: z.int().nullable(),
  signal: z.string().nullable(),
  reason: z.string().optional(),
  cause: z.literal("machine").optional(),
});

export const helloHead = (head: unknown): HelloHead => checked(hello, head);
/** The body of a HELLO that lists more jobs than its head can hold. */
export const helloBody = (body: unknown): readonly HeldJob[] => checked(heldJobs, body);
export const creditHead = (head: unknown): CreditHead => checked(credit, head);
export const bootFailureHead = (head: unknown): BootFailure => checked(bootFailure, head);
export const workersHead = (head: unknown): WorkersHead => checked(workers, head);
export const startedHead = (head: unknown): StartedHead => checked(started, head);
export const exitedHead = (head: unknown): ExitedHead => checked(exited, head);

export function jobResultHead(head: unknown): JobResultHead {
  const { ok, execMs, begun, raised } = fields(head);
  if (typeof ok !== "boolean") throw new Error("ok must be true or false");
  checkDuration(execMs);
  if (raised !== undefined && raised !== true) throw new Error("raised can only be true");
  if (begun !== undefined && begun !== false) throw new Error("begun can only be false");
  return head as JobResultHead;
}

export function requestResultHead(head: unknown): RequestResultHead {
  const { status, headers, execMs } = fields(head);
  if (!Number.isFinite(status)) throw new Error("status must be a number");
  if (!Array.isArray(headers) || !headers.every(isHeader)) throw new Error("headers must be pairs of texts");
  checkDuration(execMs);
  return head as RequestResultHead;
}

/** Of the last BODY frame of an answer. */
export function bodyEndHead(head: unknown): { failed?: boolean } {
  const { failed } = fields(head);
  if (failed !== undefined && typeof failed !== "boolean") throw new Error("failed must be true or false");
  return head as { failed?: boolean };
}

export function logHead(head: unknown): LogHead {
  const { stream, job, worker } = fields(head);
  if (stream !== undefined && stream !== "stdout" && stream !== "stderr")
    throw new Error("stream must be stdout or stderr");
  for (const text of [job, worker]) {
    if (text !== undefined && typeof text !== "string") throw new Error("job and worker must be texts");
  }
  return head as LogHead;
}

/** Of a WINDOW frame: how much more may be sent. */
export function windowHead(head: unknown): { bytes: number } {
  const { bytes } = fields(head);
  if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) throw new Error("bytes must be a whole number");
  return head as { bytes: number };
}

function fields(head: unknown): Record<string, unknown> {
  if (typeof head !== "object" || head === null || Array.isArray(head)) throw new Error("it is not an object");
  return head as Record<string, unknown>;
}

function checkDuration(ms: unknown): void {
  if (ms !== undefined && !(typeof ms === "number" && ms >= 0 && ms < Number.POSITIVE_INFINITY)) {
    throw new Error("execMs must be a number from 0 up");
  }
}

function isHeader(header: unknown): boolean {
  return Array.isArray(header) && header.length === 2 && typeof header[0] === "string" && typeof header[1] === "string";
}

function checked<T>(schema: z.ZodType<T>, head: unknown): T {
  const { data, error } = schema.safeParse(head);
  if (error === undefined) return data;
  const { path, message } = error.issues[0]!;
  throw new Error(path.length === 0 ? message : `${path.join(".")}: ${message}`);
}
