/** A call of a queue-based endpoint: /run, then its chunks as they come, then its result. */
import { isAway } from "../../client/answer-error.ts";
import type { EndpointClient, JobRecord } from "../../client/gateway.ts";
import { Job } from "../../client/job.ts";
import { JobError, JobFailedError } from "../../client/job-error.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { timingText } from "../../client/timing-text.ts";
import { SvcError } from "../../domain/errors.ts";
import { firstCall } from "../../domain/manifest.ts";
import { nearest } from "../../domain/names.ts";
import type { Connection } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { endpointClient } from "../find-job.ts";
import { callInput, namedArguments } from "./input.ts";
import { showLogs } from "./log-lines.ts";
import { showResult } from "./result.ts";

export interface CallFlags {
  readonly async?: boolean;
  readonly method?: string;
  readonly logs?: boolean;
  readonly timing?: boolean;
}

export async function callJob(
  context: CliContext,
  { controlPlane, apiKey }: Connection,
  endpoint: EndpointRecord,
  words: readonly string[],
  flags: CallFlags,
): Promise<void> {
  const { terminal, interrupt } = context;
  const { method, parameters } = chosen(endpoint, flags.method);
  const input = namedArguments(await callInput(words, parameters));
  const seen: { timing?: string } = {};
  const record = await endpointClient(endpoint.url, apiKey).run(input, { request: { method } });
  const later = `svc jobs output ${record.id} prints its output, svc jobs show its state.`;
  if (flags.async) {
    terminal.out(record.id);
    return terminal.note(later);
  }
  const client = endpointClient(endpoint.url, apiKey, {
    onAnswer: ({ headers }) => {
      seen.timing = headers["server-timing"]?.toString();
    },
    onAway: () => terminal.note(`The platform does not answer. It has the job ${record.id}, and is asked again.`),
  });
  const unclaim = interrupt.claim((again) => {
    if (again) interrupt.end();
    const end = (note: string) => {
      interrupt.note = note;
      interrupt.end();
    };
    interrupt.note = `The job ${record.id} may go on.`;
    client.cancel(record.id).then(
      () => end(`The job ${record.id} is cancelled.`),
      (error: Error) => end(`The job ${record.id} was not cancelled: ${error.message}`),
    );
  });
  const logs = flags.logs ? await showLogs(terminal, controlPlane.platform, endpoint.id, record.id) : undefined;
  const endWaiting = terminal.waiting(`Waiting for the job ${record.id}`);
  try {
    await follow(context, client, record, endpoint.name);
  } catch (error) {
    if (isAway(error)) terminal.note(later);
    throw error;
  } finally {
    endWaiting();
    await logs?.end();
    unclaim();
  }
  if (flags.timing && seen.timing !== undefined) terminal.note(`${timingText(seen.timing)} (ms)`);
}

/** The method that is called, and the parameters it has as far as they are known. */
function chosen({ name, functions }: EndpointRecord, given: string | undefined) {
  const fn = functions[0];
  if (fn === undefined) return { method: given, parameters: [] };
  if (given === undefined) {
    const first = firstCall(fn);
    if (first.method === undefined) return first;
    throw new SvcError("USAGE", `${name} is a class with several methods: ${fn.methods.join(", ")}.`, {
      help: `Give --method ${first.method}, for example.`,
    });
  }
  // A class may inherit methods that its declaration does not show: the worker has the last word.
  const close = nearest(given, fn.methods);
  if (fn.kind === "function" || (close.length > 0 && !fn.methods.includes(given) && given !== "__call__")) {
    const help =
      fn.kind === "function" ? "It is a function: leave --method out." : `Did you mean ${close.join(" or ")}?`;
    throw new SvcError("USAGE", `${name} has no method "${given}".`, { help });
  }
  return { method: given, parameters: fn.methodParameters?.[given] ?? [] };
}

/** What a generator yields stands on stdout as it comes; its result, which repeats that, does not. */
async function follow(context: CliContext, client: EndpointClient, record: JobRecord, name: string): Promise<void> {
  const job = new Job(client, record.id, record);
  let chunks = 0;
  try {
    for await (const chunk of job.stream()) {
      chunks++;
      showResult(context.terminal, chunk, "line");
    }
    const output = await job.wait();
    if (chunks === 0) showResult(context.terminal, output ?? null, "whole");
  } catch (error) {
    if (!(error instanceof JobError)) throw error;
    context.terminal.note(failureText(error, name, context));
    context.answerNo();
  }
}

/** The function's own failure, in Python's words. */
function failureText(error: JobError, name: string, { terminal }: CliContext): string {
  const { red } = terminal.errColors;
  const head = `${red(`${name} ${error.job.status}:`)}`;
  if (!(error instanceof JobFailedError) || error.errorType === "") return `${head} ${error.message}`;
  const traceback = error.traceback.trimEnd();
  return traceback.endsWith(error.message)
    ? `${head}\n${traceback}`
    : `${head} ${error.message}\n${traceback}`.trimEnd();
}
