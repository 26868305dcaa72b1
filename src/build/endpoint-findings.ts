/** Findings about where Endpoint(...) stands and how it is used, in words. */
import { nearest } from "../domain/names.ts";
import type { Facts } from "./facts.ts";
import type { Finding } from "./sources.ts";

export const ROUTE_METHODS = ["get", "post", "put", "patch", "delete", "head", "options", "websocket"] as const;

/** What `from svc import …` finds: the package's `__all__`, its modules, and everything. */
export const SDK_NAMES: ReadonlySet<string> = new Set(
  `CallCycle CallError Cancelled Context CpuInstanceType CudaVersion DataCenter DeployFailed DeployedFunction Endpoint EndpointClient GpuGroup GpuType
  Image Job JobCancelled JobNotFound JobTimedOut NetworkVolume NotDeployed NotSendable PlatformError PodTemplate RemoteError
  RemoteFunction RemoteStream Response Retries Secret ServerlessScalerType SocketClosed Volume WebSocket
  __version__ batched configure context enter exit function job job_aio option progress remote with_options
  batching declared_class deploy endpoint errors family generic gpu image lifecycle names options remote_function response retries secret this_worker version volume websocket *`.split(
    /\s+/,
  ),
);

/** Classes that projects of the same family configure `@remote` with. */
const RESOURCES = /^(Cpu)?(Live|Serverless)(Serverless|Endpoint|LoadBalancer)$|^(Cpu)?LoadBalancerSlsResource$/;

type Words = Pick<Finding, "message" | "help"> & Partial<Pick<Finding, "severity">>;

const WORDS: Readonly<Record<string, (name: string) => Words>> = {
  "unused-endpoint": () => ({
    severity: "warning",
    message: "This Endpoint(...) is neither a decorator nor the value of a top-level name, so it is not deployed.",
    help: 'Write @Endpoint(...) above a function, or api = Endpoint(...) at the top level and @api.get("/path") above its routes.',
  }),
  "nested-endpoint": () => ({
    message: "An endpoint's function must stand at the top level of its file, because workers import it by name.",
    help: "Move it out of the function or class around it.",
  }),
  "bare-endpoint": () => ({
    message: "@Endpoint without brackets declares nothing.",
    help: 'Write @Endpoint(name="my-endpoint"), or @Endpoint() for one that is called like its function.',
  }),
  "remote-decorator": (name) => ({
    message: "@remote(…) declares no endpoint: settings stand in Endpoint(…) itself.",
    help: `Write @Endpoint(name="${name.toLowerCase()}", gpu=GpuGroup.ANY, workers=(0, 3), dependencies=[…]) in its place; calls stay as they are.`,
  }),
  "serverless-start": (name) => ({
    severity: name.startsWith("svc.") ? "error" : "warning",
    message: `${name}(…) starts nothing here: a worker of svc runs the function that an Endpoint declares.`,
    help: 'Leave it out and write @Endpoint(name="my-endpoint") above the handler; in place of its job it takes the fields of the input: def handler(prompt: str).',
  }),
  "nested-variant": () => ({
    message: ".with_options(…) must stand at the top level of a file: the build deploys what it finds there.",
    help: 'Write it there, as in Large = Model.with_options(size="large"), and use Large here.',
  }),
  "variant-class": () => ({
    message:
      ".with_options(…) is of a class that an Endpoint declares, not of another value or of a class with options already.",
    help: "Write @Endpoint(…) above the class, and call .with_options(…) on the class itself.",
  }),
  "other-package": (name) => ({
    severity: "warning",
    message: `What comes from ${name} is not declared for svc, so it is not deployed.`,
    help: "Write from svc import … in its place: the declarations can stay as they are.",
  }),
  "unknown-method": (name) => {
    const near = nearest(name, [...ROUTE_METHODS, "route"], 1)[0];
    return {
      message: `An endpoint has no method .${name}().`,
      help:
        near === undefined ? `Use one of ${ROUTE_METHODS.map((m) => `.${m}`).join(", ")}.` : `Did you mean .${near}?`,
    };
  },
  "shadowed-ping": () => ({
    severity: "warning",
    message: "/ping is answered by the runtime (200 when a worker is ready), not by this route of the application.",
    help: 'Choose another path, for example "/health". Behind a prefix, as in "/api/ping", it is reached.',
  }),
  "svc-name": (name) => {
    if (RESOURCES.test(name)) {
      const help = "Write @Endpoint(name=…, gpu=…, workers=(0, 3)) above the function: it takes the settings itself.";
      return { message: `svc has no ${name}.`, help };
    }
    const near = nearest(name, SDK_NAMES);
    const has = "It has Endpoint, GpuType, GpuGroup, Secret, Response, context and others.";
    return { message: `svc has no ${name}.`, help: near.length === 0 ? has : `Did you mean ${near.join(" or ")}?` };
  },
  "batched-bare": (name) => ({
    message: `@svc.batched of ${name}() needs its parentheses.`,
    help: "Write @svc.batched(max_size=16, wait_ms=5).",
  }),
  "batched-variadic": (name) => ({
    message: `${name}() is batched and has *args or **kwargs, of which no lists can be made.`,
    help: "Name its parameters.",
  }),
  "batched-generator": (name) => ({
    message: `${name}() is batched and has a yield: it returns a list with one result for each input.`,
    help: "Return a list, or leave @svc.batched out.",
  }),
  "batched-size": (name) => ({
    message: `max_size of ${name}() must be a whole number from 1 to 500 that is known without running the code.`,
    help: "Write @svc.batched(max_size=16), or a constant at the top level of a project module.",
  }),
  "route-path": (name) => {
    const isRoute = name === "route";
    return {
      message: `.${name}() needs ${isRoute ? "a method and a path, both as plain text" : "the path of the route"}.`,
      help: isRoute ? 'Write it as .route("GET", "/health").' : `Write it as .${name}("/path").`,
    };
  },
  "lifecycle-place": (name) => ({
    message: `${name}() is no method of a class: svc.enter and svc.exit mark methods of the class that an Endpoint declares.`,
    help: "Make it a method. What functions need once is loaded at the top level of their file; for the end there is atexit.",
  }),
  "lifecycle-parameters": (name) => ({
    message: `${name}() takes parameters: a worker calls it with self alone.`,
    help: "Read settings from os.environ, or keep them in the class.",
  }),
  "lifecycle-generator": (name) => ({
    message: `${name}() has a yield, so a call of it would run nothing.`,
    help: "Write what comes before it in a method marked @svc.enter, what comes after it in one marked @svc.exit.",
  }),
  "lifecycle-shared-async": (name) => ({
    message: `${name}() is async, but what shared=True marks runs before workers are forked, where no event loop is.`,
    help: "Write it with def, or leave out shared=True.",
  }),
  "lifecycle-async": (name) => ({
    message: `${name}() is async, but no method of its class that jobs call is, so its workers have no event loop.`,
    help: "Write it with def.",
  }),
};

export function endpointFindings(facts: Facts): Finding[] {
  const wrong = facts.findings.filter(({ rule, name }) => rule !== "svc-name" || !SDK_NAMES.has(name));
  return wrong.map(({ rule, at, name }) => ({ severity: "error", rule, ...WORDS[rule]!(name), at }));
}
