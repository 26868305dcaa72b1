/**
 * Traces by OpenTelemetry, sent by OTLP to where OTEL_EXPORTER_OTLP_ENDPOINT says:
 *
 *   caller's traceparent ─▶ job ┬ wait ┬ boot            request ┬ wait ┬ boot
 *                               │      └ import                  │      └ import
 *                               └ run ─▶ the function's traceparent
 *
 * The OpenTelemetry SDK batches and sends; a collector that is away costs spans, never a call. What is on its way is in memory alone.
 */
import type { Context, Span, SpanKind, Tracer } from "@opentelemetry/api";
import { TRACED_JOBS_MAX, TRACES_CLOSE_MAX_MS } from "../domain/limits.ts";
import type { HeaderList, RequestTiming, ServedRequest } from "../domain/request.ts";
import type { RequestTrace, TracedEndpoint, TracedJob, Traces } from "../domain/traces.ts";
import { VERSION } from "../domain/version.ts";
import type { WorkerBoot } from "../domain/worker.ts";

const TRACEPARENT = "traceparent";

interface JobSpans {
  readonly job: Span;
  readonly context: Context;
  /** Of the attempt that runs. */
  run: Span | undefined;
}

interface TracingHooks {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** For the platform's log. */
  told(line: string, facts?: Readonly<Record<string, unknown>>): void;
}

export interface OpenTraces extends Traces {
  /** Sends what waits, for a bounded time. Never rejects. */
  close(): Promise<void>;
}

/** The libraries are loaded here: who collects no traces never has them in memory. */
export async function openTraces(hooks: TracingHooks): Promise<OpenTraces> {
  const api = await import("@opentelemetry/api");
  const { BasicTracerProvider, BatchSpanProcessor } = await import("@opentelemetry/sdk-trace-base");
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-http");
  const { defaultResource, detectResources, envDetector, resourceFromAttributes } = await import(
    "@opentelemetry/resources"
  );
  const exporter = new OTLPTraceExporter();
  let failing = false;
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "svc", "service.version": VERSION }))
    .merge(detectResources({ detectors: [envDetector] }));
  const processor = new BatchSpanProcessor({
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const fails = result.code !== 0;
        if (fails && !failing)
          hooks.told("traces cannot be sent: spans are left out", { cause: result.error?.message });
        if (!fails && failing) hooks.told("traces are sent again");
        failing = fails;
        done({ code: 0 });
      }),
    shutdown: () => exporter.shutdown(),
  });
  const provider = new BasicTracerProvider({ resource, spanProcessors: [processor] });
  const spans = new Spans(api, provider.getTracer("svc", VERSION), hooks.clock);
  return {
    jobSubmitted: (...job) => spans.jobSubmitted(...job),
    jobDropped: (jobId) => spans.jobDropped(jobId),
    jobHandedOut: (jobId) => spans.jobHandedOut(jobId),
    jobFinished: (...job) => spans.jobFinished(...job),
    request: (...request) => spans.request(...request),
    async close() {
      const late = new Promise((resolve) => setTimeout(resolve, TRACES_CLOSE_MAX_MS).unref());
      await Promise.race([provider.shutdown().catch(() => {}), late]);
    },
  };
}

type Api = typeof import("@opentelemetry/api");

class Spans implements Traces {
  readonly #api: Api;
  readonly #tracer: Tracer;
  readonly #clock: () => number;
  readonly #jobs = new Map<string, JobSpans>();

  constructor(api: Api, tracer: Tracer, clock: () => number) {
    this.#api = api;
    this.#tracer = tracer;
    this.#clock = clock;
  }

  jobSubmitted(jobId: string, endpoint: TracedEndpoint, traceparent: string | undefined): void {
    const attributes = { ...attributesOf(endpoint), "svc.job.id": jobId };
    const { CONSUMER } = this.#api.SpanKind;
    const job = this.#start(`job ${endpoint.name}`, CONSUMER, this.#parent(traceparent), this.#clock(), attributes);
    this.#jobs.set(jobId, { job, context: this.#api.trace.setSpan(this.#api.ROOT_CONTEXT, job), run: undefined });
    // One that was deleted unfinished, or waits for days, makes room.
    if (this.#jobs.size > TRACED_JOBS_MAX) this.#jobs.delete(this.#jobs.keys().next().value!);
  }

  jobDropped(jobId: string): void {
    this.#jobs.delete(jobId);
  }

  jobHandedOut(jobId: string): string | undefined {
    const spans = this.#jobs.get(jobId);
    if (spans === undefined) return undefined;
    const { INTERNAL } = this.#api.SpanKind;
    // An attempt that failed, or whose worker was lost.
    spans.run?.setStatus({ code: this.#api.SpanStatusCode.ERROR }).end(this.#clock());
    spans.run = this.#start("run", INTERNAL, spans.context, this.#clock());
    return traceparentOf(spans.run);
  }

  jobFinished(
    { id, state, workerId, createdAt, startedAt, finishedAt }: TracedJob,
    boot: WorkerBoot | undefined,
  ): void {
    const spans = this.#jobs.get(id);
    if (spans === undefined) return;
    this.#jobs.delete(id);
    const { job, context, run } = spans;
    this.#waited(context, createdAt, startedAt ?? finishedAt, boot);
    const { ERROR } = this.#api.SpanStatusCode;
    const failed = state !== "COMPLETED";
    if (failed) run?.setStatus({ code: ERROR, message: state });
    run?.end(finishedAt);
    job.setAttributes({ "svc.job.state": state, "svc.worker.id": workerId });
    if (failed) job.setStatus({ code: ERROR, message: state });
    job.end(finishedAt);
  }

  request(endpoint: TracedEndpoint, method: string, headers: HeaderList): RequestTrace {
    const { INTERNAL, SERVER } = this.#api.SpanKind;
    const given = headers.find(([name]) => name === TRACEPARENT)?.[1];
    const attributes = { ...attributesOf(endpoint), "http.request.method": method };
    const began = this.#clock();
    const request = this.#start(`${method} ${endpoint.name}`, SERVER, this.#parent(given), began, attributes);
    const context = this.#api.trace.setSpan(this.#api.ROOT_CONTEXT, request);
    const others = headers.filter(([name]) => name !== TRACEPARENT);
    return {
      headers: [...others, [TRACEPARENT, traceparentOf(request)]],
      end: (status: number, served: ServedRequest | undefined) => {
        if (served !== undefined) {
          const { queueMs, execMs } = served.timing;
          this.#waited(context, began, began + queueMs, bootOf(served.timing, began));
          this.#start("run", INTERNAL, context, began + queueMs).end(began + queueMs + execMs);
          request.setAttribute("svc.worker.id", served.workerId);
        }
        request.setAttribute("http.response.status_code", status);
        if (status >= 500) request.setStatus({ code: this.#api.SpanStatusCode.ERROR });
        request.end(this.#clock());
      },
    };
  }

  /** The span of the wait, with those of the worker that was started meanwhile. */
  #waited(context: Context, from: number, to: number, boot: WorkerBoot | undefined): void {
    const { INTERNAL } = this.#api.SpanKind;
    const wait = this.#start("wait", INTERNAL, context, from);
    if (boot !== undefined) {
      const inside = this.#api.trace.setSpan(this.#api.ROOT_CONTEXT, wait);
      const importedAt = to - boot.importMs;
      this.#start("boot", INTERNAL, inside, importedAt - boot.bootMs).end(importedAt);
      if (boot.importMs > 0) this.#start("import", INTERNAL, inside, importedAt).end(to);
    }
    wait.end(to);
  }

  #start(name: string, kind: SpanKind, parent: Context, startTime: number, attributes = {}): Span {
    return this.#tracer.startSpan(name, { kind, startTime, attributes }, parent);
  }

  #parent(traceparent: string | undefined): Context {
    const { ROOT_CONTEXT, trace, isSpanContextValid } = this.#api;
    const [, traceId = "", spanId = "", flags = "0"] =
      /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(traceparent ?? "") ?? [];
    const caller = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
    return isSpanContextValid(caller) ? trace.setSpanContext(ROOT_CONTEXT, caller) : ROOT_CONTEXT;
  }
}

function attributesOf({ id, name }: TracedEndpoint) {
  return { "svc.endpoint": name, "svc.endpoint.id": id };
}

function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

function bootOf({ bootMs, importMs }: RequestTiming, startedAt: number): WorkerBoot | undefined {
  return bootMs + importMs > 0 ? { startedAt, bootMs, importMs } : undefined;
}
